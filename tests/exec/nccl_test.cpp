// Tests collectives and messages on device memory over NCCL. If the GPU is emulated, NCCL is
// emulated too (tests/cuda_emulation). mpirun runs this: the groups are all prefixes and all pairs
// of neighbours of the ranks, as in communicator_test.cpp. NCCL may round at every addition and
// adds in its own order, so a sum of n numbers may be off by n roundings of the sum of their
// magnitudes.
#include "exec/comm/nccl.h"

#include <cuda_runtime.h>
#include <nccl.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "exec/backends/cuda/device/check.h"
#include "exec/comm/device_self.h"
#include "exec/core/half.h"
#include "tests/catch.h"
#include "tests/exec/device_memory.h"
#include "tests/exec/worlds.h"

using namespace meshwright::tests;

namespace {

double value(int rank, std::int64_t i) { return std::sin(1.0 + rank * 1000.0 + 0.37 * double(i)); }

std::vector<double> values(int rank, std::int64_t elements, std::int64_t first = 0) {
  std::vector<double> made(static_cast<std::size_t>(elements));
  for (std::int64_t i = 0; i < elements; ++i)
    made[static_cast<std::size_t>(i)] = value(rank, first + i);
  return made;
}

std::vector<int> prefix(int size) {
  std::vector<int> ranks(static_cast<std::size_t>(size));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

double roundoff(Dtype dtype) {
  return dtype == Dtype::f64   ? std::ldexp(1.0, -53)
         : dtype == Dtype::f32 ? std::ldexp(1.0, -24)
         : dtype == Dtype::f16 ? std::ldexp(1.0, -11)
                               : std::ldexp(1.0, -8);
}

// For each element, its sum, sum of magnitudes and maximum over the ranks of a group. Each rank
// holds sines, rounded to the type that stores them.
struct Expected {
  std::vector<double> sum, magnitude, largest;
};
Expected expected(int ranks, std::int64_t elements, Dtype dtype, std::int64_t first = 0) {
  const auto count = static_cast<std::size_t>(elements);
  Expected all{std::vector<double>(count), std::vector<double>(count),
               std::vector<double>(count, -2)};
  for (int rank = 0; rank < ranks; ++rank) {
    const std::vector<double> stored = as_stored(values(rank, elements, first), dtype);
    for (std::size_t i = 0; i < count; ++i) {
      all.sum[i] += stored[i];
      all.magnitude[i] += std::abs(stored[i]);
      all.largest[i] = std::max(all.largest[i], stored[i]);
    }
  }
  return all;
}

// Checks results of `additions` additions of numbers whose magnitudes add up to `times` *
// `magnitude`. Each partial sum is at most that, and rounding moves it by at most a roundoff (for
// f16's smallest numbers, by an absolute amount).
void check_sums(const std::vector<double>& found, const Expected& wanted, double times,
                int additions, Dtype dtype) {
  REQUIRE(found.size() == wanted.sum.size());
  const double smallest = dtype == Dtype::f16 ? std::ldexp(1.0, -25) : 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double u = roundoff(dtype);
    const double bound =
        additions * (u * times * wanted.magnitude[i] * (1 + additions * u) + smallest);
    if (!(std::abs(found[i] - times * wanted.sum[i]) <= bound))
      FAIL_CHECK("element " << i << ": " << found[i] << ", not " << times * wanted.sum[i]);
  }
}

class OneStream : public StreamSource {
 public:
  void* current_stream() override { return stream; }
  cudaStream_t stream = nullptr;
};

// Chooses this rank's device, round-robin.
void choose_device() {
  int devices = 0;
  cuda::check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  cuda::check(cudaSetDevice(test_world().rank() % devices), "cudaSetDevice");
}

// Two streams of a device, of which one is the current one, and a world on it.
struct Device {
  explicit Device(bool windows = false) {
    choose_device();
    cuda::check(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), "cudaStreamCreate");
    cuda::check(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), "cudaStreamCreate");
    streams.stream = first;
    world = make_nccl_world(test_world(), streams, 60, windows);
  }
  ~Device() {
    world.reset();
    cudaStreamDestroy(first);
    cudaStreamDestroy(second);
  }
  OneStream streams;
  cudaStream_t first = nullptr, second = nullptr;
  std::unique_ptr<World> world;
};

void check_all_reduce(Device& device, Communicator& group, void* data, std::int64_t elements) {
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16}) {
    const Expected wanted = expected(group.size(), elements, dtype);
    upload(data, values(group.rank(), elements), dtype, device.first);
    group.all_reduce(data, elements, dtype, false);
    check_sums(download(data, elements, dtype, device.first), wanted, 1, group.size(), dtype);
    upload(data, values(group.rank(), elements), dtype, device.first);
    group.all_reduce(data, elements, dtype, true);
    CHECK(download(data, elements, dtype, device.first) == wanted.largest);
  }
}

void check_parts(Device& device, Communicator& group, void* data, void* other, std::int64_t part) {
  const std::int64_t whole = part * group.size();
  for (const Dtype dtype : {Dtype::f32, Dtype::f64, Dtype::f16, Dtype::bf16}) {
    const std::int64_t bytes = part * bytes_of(dtype);
    char* own = static_cast<char*>(data) + bytes * group.rank();
    // A reduce-scatter into this rank's part of the buffer and a gather are together an all-reduce.
    const Expected wanted = expected(group.size(), whole, dtype);
    upload(data, values(group.rank(), whole), dtype, device.first);
    group.reduce_scatter(data, own, part, dtype, false);
    group.all_gather(own, other, bytes);
    group.all_gather(own, data, bytes);
    check_sums(download(other, whole, dtype, device.first), wanted, 1, group.size(), dtype);
    CHECK(download(other, whole, dtype, device.first) ==
          download(data, whole, dtype, device.first));
    // The sum is stored outside of the buffer, and the second time it is added there.
    const Expected mine = expected(group.size(), part, dtype, part * group.rank());
    upload(data, values(group.rank(), whole), dtype, device.first);
    group.reduce_scatter(data, other, part, dtype, false);
    group.reduce_scatter(data, other, part, dtype, true);
    check_sums(download(other, part, dtype, device.first), mine, 2, 2 * group.size() + 1, dtype);
  }
}

void check_broadcast(Device& device, Communicator& group, void* data, std::int64_t elements) {
  for (int root = 0; root < group.size(); ++root) {
    upload(data, values(group.rank(), elements), Dtype::f32, device.first);
    group.broadcast(data, elements * 4, root);
    CHECK(download(data, elements, Dtype::f32, device.first) ==
          as_stored(values(root, elements), Dtype::f32));
  }
}

void check_apart(Device& device, Communicator& group, void* data, std::int64_t elements) {
  const Expected wanted = expected(group.size(), elements, Dtype::f32);
  const std::int64_t distance = 2 * elements * 4;
  const auto part = [&](int rank) { return static_cast<char*>(data) + rank * distance; };
  upload(part(group.rank()), values(group.rank(), elements), Dtype::f32, device.first);
  group.gather_apart(data, elements * 4, distance);
  for (int rank = 0; rank < group.size(); ++rank)
    CHECK(download(part(rank), elements, Dtype::f32, device.first) ==
          as_stored(values(rank, elements), Dtype::f32));
  group.barrier();
  for (int rank = 0; rank < group.size(); ++rank)
    upload(part(rank), values(group.rank(), elements), Dtype::f32, device.first);
  group.reduce_apart(data, elements, Dtype::f32, distance);
  check_sums(download(part(group.rank()), elements, Dtype::f32, device.first), wanted, 1,
             group.size(), Dtype::f32);
  group.barrier();
}

void check_reduce(Device& device, Communicator& group, void* data, std::int64_t elements) {
  const Expected wanted = expected(group.size(), elements, Dtype::f32);
  for (int root = 0; root < group.size(); ++root) {
    upload(data, values(group.rank(), elements), Dtype::f32, device.first);
    group.reduce(data, elements, Dtype::f32, root);
    if (group.rank() == root)
      check_sums(download(data, elements, Dtype::f32, device.first), wanted, 1, group.size(),
                 Dtype::f32);
    group.barrier();
  }
}

// Tests an all-to-all. Part i of what rank r sends begins with element (r * size + i) of one list.
void check_all_to_all(Device& device, Communicator& group, void* out, void* in, std::int64_t part) {
  const int size = group.size();
  std::vector<double> given, wanted;
  for (int peer = 0; peer < size; ++peer)
    for (std::int64_t i = 0; i < part; ++i) {
      given.push_back(value(group.rank() * size + peer, i));
      wanted.push_back(value(peer * size + group.rank(), i));
    }
  upload(out, given, Dtype::f32, device.first);
  group.all_to_all(out, in, part * 4);
  CHECK(download(in, part * size, Dtype::f32, device.first) == as_stored(wanted, Dtype::f32));
}

void check_shift(Device& device, Communicator& group, void* from, void* to, std::int64_t elements) {
  const int before = (group.rank() + group.size() - 1) % group.size();
  upload(from, values(group.rank(), elements), Dtype::f32, device.first);
  shift_around(group, from, to, elements * 4);
  CHECK(download(to, elements, Dtype::f32, device.first) ==
        as_stored(values(before, elements), Dtype::f32));
}

void check_collectives(Device& device, Communicator& group, void* data, void* other) {
  for (std::int64_t elements : {0, 1, 2, 3, 5, 31, 4097}) {
    CAPTURE(elements, group.rank(), group.size());
    check_all_reduce(device, group, data, elements);
    check_parts(device, group, data, other, elements);
    check_broadcast(device, group, data, elements);
    check_reduce(device, group, data, elements);
    check_apart(device, group, data, elements);
    check_all_to_all(device, group, data, other, elements);
    group.barrier();
  }
}

constexpr std::int64_t memory_bytes = 4097 * 8 * 4;

// The emulated NCCL counts the open windows. A real one does not.
#ifdef MESHWRIGHT_EMULATED_NCCL
constexpr int counts_windows = 1;
int open_windows() { return emulated::nccl_windows(); }
#else
constexpr int counts_windows = 0;
int open_windows() { return 0; }
#endif

}  // namespace

TEST_CASE("collectives on device memory are right for every size", "[nccl]") {
  Device device;
  void* data = device.world->allocate(memory_bytes);
  void* other = device.world->allocate(memory_bytes);
  const GroupKind kinds[] = {GroupKind::tensor, GroupKind::context, GroupKind::rdp, GroupKind::dp};
  for (int size = 1; size <= std::min(4, device.world->size()); ++size) {
    if (device.world->rank() >= size) continue;
    const auto group = device.world->group(kinds[size - 1], prefix(size));
    REQUIRE(group->size() == size);
    REQUIRE(group->rank() == device.world->rank());
    check_collectives(device, *group, data, other);
    for (std::int64_t elements : {0, 1, 4097}) check_shift(device, *group, data, other, elements);
  }
}

// The second allocation is larger on rank 1, so it is not registered.
TEST_CASE("memory that all members have alike is registered with their group", "[nccl]") {
  Device device(true);
  const int ranks = device.world->size();
  void* data = device.world->allocate(memory_bytes);
  void* other = device.world->allocate(memory_bytes + (device.world->rank() == 1 ? 512 : 0));
  const int before = open_windows();
  {
    const auto group = device.world->group(GroupKind::dp, prefix(ranks));
    CHECK(open_windows() - before == (ranks > 1 ? 1 : 0) * counts_windows);
    check_collectives(device, *group, data, other);
  }
  CHECK(open_windows() == before);
}

TEST_CASE("groups beside each other do not disturb each other", "[nccl]") {
  Device device;
  if (device.world->size() % 2 != 0) return;  // pairs
  void* data = device.world->allocate(memory_bytes);
  void* other = device.world->allocate(memory_bytes);
  const int first = device.world->rank() / 2 * 2;
  const int pair[] = {first, first + 1};
  const auto group = device.world->group(GroupKind::shard, pair);
  check_collectives(device, *group, data, other);
}

TEST_CASE("memory for communication is cleared and aligned", "[nccl]") {
  Device device;
  void* memory = device.world->allocate(1000);
  CHECK(reinterpret_cast<std::uintptr_t>(memory) % 256 == 0);
  CHECK(download(memory, 250, Dtype::f32, device.first) == std::vector<double>(250));
  CHECK(device.world->resident_bytes_of_others() == test_world().resident_bytes_of_others());
}

// The stages of a pipeline send like this: many messages each way around the ring, with receives on
// one stream and sends on the other. Each rank waits for its sends only after all has been issued.
// Two messages of one pair in opposite directions would not meet if they shared a stream or a
// communicator.
TEST_CASE("neighbours in a pipeline exchange messages in both directions at once", "[nccl]") {
  Device device;
  const int size = device.world->size(), rank = device.world->rank();
  if (size == 1) return;
  constexpr int messages = 5;
  constexpr std::int64_t most = 100;
  const auto group = device.world->group(GroupKind::pipeline, prefix(size));
  auto* out = static_cast<char*>(device.world->allocate(2 * messages * most * 4));
  auto* in = static_cast<char*>(device.world->allocate(2 * messages * most * 4));
  const auto place = [](char* memory, int message, int direction) {
    return memory + (2 * message + direction) * most * 4;
  };
  // Message m has 10 + m numbers. The one to the right differs from the one to the left.
  const auto what = [](int from, int message, int direction) {
    return as_stored(values(from, 10 + message, 1000 * direction + 100 * message), Dtype::f32);
  };
  const int right = (rank + 1) % size, left = (rank + size - 1) % size;
  for (int m = 0; m < messages; ++m)
    for (const int direction : {0, 1})
      upload(place(out, m, direction), what(rank, m, direction), Dtype::f32, device.first);
  for (int m = 0; m < messages; ++m) {
    const std::int64_t bytes = (10 + m) * 4;
    const auto send_both = [&] {
      device.streams.stream = device.second;
      CHECK(group->isend(place(out, m, 0), bytes, right, 0) == 0);
      CHECK(group->isend(place(out, m, 1), bytes, left, 0) == 0);
    };
    // The host may issue sends and receives in any order.
    if (rank % 2 == 0) send_both();
    device.streams.stream = device.first;
    CHECK(group->irecv(place(in, m, 0), bytes, left, 0) == 0);
    CHECK(group->irecv(place(in, m, 1), bytes, right, 0) == 0);
    if (rank % 2 != 0) send_both();
  }
  for (int m = 0; m < messages; ++m) {
    CHECK(download(place(in, m, 0), 10 + m, Dtype::f32, device.first) == what(left, m, 0));
    CHECK(download(place(in, m, 1), 10 + m, Dtype::f32, device.first) == what(right, m, 1));
  }
  cuda::check(cudaStreamSynchronize(device.second), "cudaStreamSynchronize");
  group->barrier();
}

// None of these calls waits, copies between device and host, or allocates device memory.
TEST_CASE("collectives are captured in a graph and come again with each replay", "[nccl]") {
  Device device;
  const int size = device.world->size(), rank = device.world->rank();
  const auto group = device.world->group(GroupKind::world, prefix(size));
  constexpr std::int64_t part = 33;
  void* data = device.world->allocate(part * size * 4);
  void* own = device.world->allocate(part * 4);
  void* all = device.world->allocate(part * size * 4);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t replay = nullptr;
  cuda::check(cudaStreamBeginCapture(device.first, cudaStreamCaptureModeGlobal), "begin");
  group->reduce_scatter(data, own, part, Dtype::f32, false);
  group->reduce_scatter(data, own, part, Dtype::f32, true);
  group->all_gather(own, all, part * 4);
  shift_around(*group, all, data, part * 4);
  cuda::check(cudaStreamEndCapture(device.first, &graph), "end");
  cuda::check(cudaGraphInstantiate(&replay, graph, 0), "cudaGraphInstantiate");
  for (int turn = 0; turn < 3; ++turn) {
    const Expected wanted = expected(size, part * size, Dtype::f32, 1000 * turn);
    upload(data, values(rank, part * size, 1000 * turn), Dtype::f32, device.first);
    cuda::check(cudaGraphLaunch(replay, device.first), "cudaGraphLaunch");
    const std::vector<double> gathered = download(all, part * size, Dtype::f32, device.first);
    check_sums(gathered, wanted, 2, 2 * size + 1, Dtype::f32);
    // Every rank has the same result, and its neighbour's first part.
    CHECK(download(data, part, Dtype::f32, device.first) ==
          std::vector<double>(gathered.begin(), gathered.begin() + part));
  }
  cudaGraphExecDestroy(replay);
  cudaGraphDestroy(graph);
}

TEST_CASE("sums in a type that no rank can sum are refused", "[nccl]") {
  Device device;
  const auto group = device.world->group(GroupKind::world, prefix(device.world->size()));
  void* data = device.world->allocate(4);
  CHECK_THROWS_AS(group->all_reduce(data, 1, Dtype::i32, false), RunError);
  CHECK_THROWS_AS(group->reduce(data, 1, Dtype::i32, 0), RunError);
  CHECK_THROWS_AS(group->reduce_scatter(data, data, 1, Dtype::i32, false), RunError);
}

TEST_CASE("a message between ranks that are no neighbours is refused", "[nccl]") {
  Device device;
  const int size = device.world->size();
  if (size < 4) return;
  const auto group = device.world->group(GroupKind::pipeline, prefix(size));
  void* data = device.world->allocate(4);
  CHECK_THROWS_AS(group->isend(data, 4, (device.world->rank() + 2) % size, 0), RunError);
}

// Messages are sent on one stream and received on the other. Two are in flight, and the memory that
// was sent is overwritten.
TEST_CASE("a stage of a pipeline receives what it sends to itself", "[nccl]") {
  Device device;
  const int size = device.world->size(), rank = device.world->rank();
  if (size == 1) return;
  const auto group = device.world->group(GroupKind::pipeline, prefix(size));
  void* from = device.world->allocate(64);
  void* to = device.world->allocate(128);
  const auto what = [](int turn) { return as_stored(values(3, 16, 100 * turn), Dtype::f32); };
  for (int turn = 0; turn < 6; turn += 2) {
    for (const int message : {0, 1}) {
      upload(from, what(turn + message), Dtype::f32, device.second);
      device.streams.stream = device.second;
      CHECK(group->isend(from, 64, rank, 7 + message) == 0);
    }
    upload(from, what(99), Dtype::f32, device.second);
    device.streams.stream = device.first;
    for (const int message : {1, 0}) {
      CHECK(group->irecv(to, 64, rank, 7 + message) == 0);
      CHECK(download(to, 16, Dtype::f32, device.first) == what(turn + message));
    }
  }
  CHECK_THROWS_AS(group->irecv(to, 64, rank, 7), RunError);
  device.streams.stream = device.second;
  group->isend(from, 64, rank, 7);
  CHECK_THROWS_AS(group->irecv(to, 60, rank, 7), RunError);
  cuda::check(cudaStreamSynchronize(device.second), "cudaStreamSynchronize");
}

TEST_CASE("messages to oneself on a device are copied when both ends are there", "[nccl]") {
  Device device;
  const auto self = make_device_self_communicator(device.streams);
  void* from = device.world->allocate(64);
  void* to = device.world->allocate(64);
  upload(from, values(3, 16), Dtype::f32, device.first);
  const Request sent = self->isend(from, 64, 0, 7);
  CHECK_FALSE(self->test(sent));
  const Request received = self->irecv(to, 64, 0, 7);
  CHECK(self->test(sent));
  self->wait(received);
  CHECK(download(to, 16, Dtype::f32, device.first) == as_stored(values(3, 16), Dtype::f32));
}

TEST_CASE("every rank knows what runs where", "[nccl]") {
  choose_device();
  World& host = test_world();
  int device = 0;
  cuda::check(cudaGetDevice(&device), "cudaGetDevice");
  const std::vector<DevicePlace> places = device_places(host, device);
  const std::vector<std::string> variables{"NCCL_DEBUG=INFO", "HOME=/root", "FI_PROVIDER=efa"};
  const std::string text = describe_devices(places, variables);
  const std::string without = describe_devices(places, {});
  CHECK(text.starts_with("NCCL 2."));
  CHECK(text.find("\nenvironment: NCCL_DEBUG=INFO FI_PROVIDER=efa\nhost ") != std::string::npos);
  CHECK(without.find("\nenvironment: nothing set\nhost ") != std::string::npos);
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
  const std::string ranks =
      host.size() == 1 ? ": rank 0; " : ": ranks 0-" + std::to_string(host.size() - 1) + "; ";
  CHECK(text.find(ranks + properties.name + " at 0") != std::string::npos);
}

TEST_CASE("the same GPU is known by its host and its bus", "[nccl]") {
  const DevicePlace first{{"a"}, {"H100"}, {"0000:01:00.0"}};
  DevicePlace other = first;
  CHECK(are_distinct(std::vector{first}));
  CHECK_FALSE(are_distinct(std::vector{first, other}));
  other.bus = {"0000:02:00.0"};
  CHECK(are_distinct(std::vector{first, other}));
  CHECK_FALSE(are_distinct(std::vector{first, other, other}));
  other = first;
  other.host = {"b"};
  CHECK(are_distinct(std::vector{first, other}));
}
