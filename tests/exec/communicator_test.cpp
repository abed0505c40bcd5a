// Tests collectives and messages on every kind of communicator of this build. Run without mpirun it
// tests `self`. Under mpirun the groups are all prefixes and all pairs of neighbours of the ranks.
#include "exec/comm/communicator.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "exec/comm/two_levels.h"
#include "exec/core/half.h"
#include "tests/catch.h"
#include "tests/exec/worlds.h"

using namespace meshwright::tests;

namespace {

// Returns the value of rank r at element i. Sums of these are inexact, so that the order of
// summation shows.
double value(int rank, std::int64_t i) { return std::sin(1.0 + rank * 1000.0 + 0.37 * double(i)); }

template <typename T>
std::vector<T> in_order_sum(int ranks, std::int64_t elements) {
  std::vector<T> sum(static_cast<std::size_t>(elements));
  for (std::int64_t i = 0; i < elements; ++i) {
    T total = T(value(0, i));
    for (int rank = 1; rank < ranks; ++rank) total += T(value(rank, i));
    sum[static_cast<std::size_t>(i)] = total;
  }
  return sum;
}

template <typename T>
void fill(T* data, int rank, std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) data[i] = T(value(rank, i));
}

template <typename T>
bool same(const T* data, const std::vector<T>& expected) {
  return std::equal(expected.begin(), expected.end(), data);
}

template <typename T>
void check_all_reduce(Communicator& group, T* data, std::int64_t elements, Dtype dtype) {
  fill(data, group.rank(), elements);
  group.all_reduce(data, elements, dtype, false);
  CHECK(same(data, in_order_sum<T>(group.size(), elements)));
  fill(data, group.rank(), elements);
  group.all_reduce(data, elements, dtype, true);
  for (std::int64_t i = 0; i < elements; ++i) {
    double largest = value(0, i);
    for (int rank = 1; rank < group.size(); ++rank) largest = std::max(largest, value(rank, i));
    if (data[i] != T(largest)) FAIL_CHECK("element " << i);
  }
}

template <typename T>
void check_parts(Communicator& group, T* data, std::int64_t part, Dtype dtype) {
  const std::int64_t whole = part * group.size();
  T* own = data + part * group.rank();
  // A reduce-scatter into this rank's part of the buffer and a gather are together an all-reduce.
  fill(data, group.rank(), whole);
  group.reduce_scatter(data, own, part, dtype, false);
  for (const bool flat : {false, true}) {
    std::vector<T> gathered(static_cast<std::size_t>(whole));
    group.all_gather(own, gathered.data(), bytes_of(part, dtype), flat);
    CHECK(same(gathered.data(), in_order_sum<T>(group.size(), whole)));
  }
  group.all_gather(own, data, bytes_of(part, dtype));
  CHECK(same(data, in_order_sum<T>(group.size(), whole)));
  // The sum is stored outside of the buffer, and the second time it is added there.
  std::vector<T> outside(static_cast<std::size_t>(part), T{7});
  fill(data, group.rank(), whole);
  group.reduce_scatter(data, outside.data(), part, dtype, false);
  group.reduce_scatter(data, outside.data(), part, dtype, true);
  std::vector<T> sum = in_order_sum<T>(group.size(), whole);
  for (std::int64_t i = 0; i < part; ++i) {
    const T once = sum[static_cast<std::size_t>(part * group.rank() + i)];
    CHECK(outside[static_cast<std::size_t>(i)] == once + once);
  }
}

// 16-bit numbers are summed in fp32 in the order of the ranks and rounded once.
void check_16_bit(Communicator& group, void* memory, std::int64_t part, Dtype dtype) {
  const std::int64_t whole = part * group.size();
  const auto count = static_cast<std::size_t>(whole);
  std::vector<std::uint16_t> own(count), sums(count), largest(count);
  std::vector<float> sum(count), most(count), wide(count);
  for (int rank = 0; rank < group.size(); ++rank) {
    std::vector<std::uint16_t> stored(count);
    for (std::int64_t i = 0; i < whole; ++i)
      wide[static_cast<std::size_t>(i)] = static_cast<float>(value(rank, i));
    narrow(wide.data(), dtype, whole, stored.data());
    widen(stored.data(), dtype, whole, wide.data());
    for (std::size_t i = 0; i < count; ++i) {
      sum[i] = rank == 0 ? wide[i] : sum[i] + wide[i];
      most[i] = rank == 0 ? wide[i] : std::max(most[i], wide[i]);
    }
    if (rank == group.rank()) own = stored;
  }
  narrow(sum.data(), dtype, whole, sums.data());
  narrow(most.data(), dtype, whole, largest.data());
  auto* data = static_cast<std::uint16_t*>(memory);
  std::copy(own.begin(), own.end(), data);
  group.all_reduce(data, whole, dtype, false);
  CHECK(std::equal(sums.begin(), sums.end(), data));
  std::copy(own.begin(), own.end(), data);
  group.all_reduce(data, whole, dtype, true);
  CHECK(std::equal(largest.begin(), largest.end(), data));
  // The sum of this rank's part is stored outside of the buffer and then added to it. That sum is
  // rounded too.
  std::vector<std::uint16_t> outside(static_cast<std::size_t>(part));
  std::copy(own.begin(), own.end(), data);
  group.reduce_scatter(data, outside.data(), part, dtype, false);
  const auto* mine = sums.data() + part * group.rank();
  CHECK(std::equal(outside.begin(), outside.end(), mine));
  group.reduce_scatter(data, outside.data(), part, dtype, true);
  std::vector<float> twice(static_cast<std::size_t>(part));
  widen(mine, dtype, part, twice.data());
  for (std::int64_t i = 0; i < part; ++i)
    twice[static_cast<std::size_t>(i)] += sum[static_cast<std::size_t>(part * group.rank() + i)];
  std::vector<std::uint16_t> expected(static_cast<std::size_t>(part));
  narrow(twice.data(), dtype, part, expected.data());
  CHECK(outside == expected);
}

void check_broadcast(Communicator& group, float* data, std::int64_t elements) {
  for (int root = 0; root < group.size(); ++root) {
    fill(data, group.rank(), elements);
    group.broadcast(data, elements * 4, root);
    std::vector<float> expected(static_cast<std::size_t>(elements));
    fill(expected.data(), root, elements);
    CHECK(same(data, expected));
  }
}

void check_reduce(Communicator& group, float* data, std::int64_t elements) {
  for (int root = 0; root < group.size(); ++root) {
    fill(data, group.rank(), elements);
    group.reduce(data, elements, Dtype::f32, root);
    if (group.rank() == root) CHECK(same(data, in_order_sum<float>(group.size(), elements)));
    group.barrier();
  }
}

// Tests parts with gaps of the same size between them. The gaps stay as they are.
void check_apart(Communicator& group, float* data, std::int64_t elements) {
  const std::int64_t distance = 2 * elements, all = distance * group.size();
  const std::vector<float> expected_sum = in_order_sum<float>(group.size(), elements);
  std::fill_n(data, all, -1.0f);
  fill(data + group.rank() * distance, group.rank(), elements);
  group.gather_apart(data, elements * 4, distance * 4);
  std::vector<float> expected(static_cast<std::size_t>(all), -1.0f);
  for (int rank = 0; rank < group.size(); ++rank)
    fill(expected.data() + rank * distance, rank, elements);
  CHECK(same(data, expected));
  group.barrier();
  for (int rank = 0; rank < group.size(); ++rank)
    fill(data + rank * distance, group.rank(), elements);
  group.reduce_apart(data, elements, Dtype::f32, distance * 4);
  CHECK(same(data + group.rank() * distance, expected_sum));
  group.barrier();
}

// Tests an all-to-all. Part i of what rank r sends begins with element (r * size + i) of one list.
void check_all_to_all(Communicator& group, float* out, std::int64_t part) {
  const int size = group.size();
  std::vector<float> in(static_cast<std::size_t>(part * size), -1.0f), expected;
  for (int peer = 0; peer < size; ++peer)
    for (std::int64_t i = 0; i < part; ++i) {
      out[peer * part + i] = float(value(group.rank() * size + peer, i));
      expected.push_back(float(value(peer * size + group.rank(), i)));
    }
  group.all_to_all(out, in.data(), part * 4);
  CHECK(in == expected);
}

// Each rank sends two messages around the ring. They are received in the opposite order.
void check_messages(Communicator& group, float* data, std::int64_t elements) {
  const int next = (group.rank() + 1) % group.size();
  const int before = (group.rank() + group.size() - 1) % group.size();
  float* in = data + 2 * elements;
  fill(data, group.rank(), 2 * elements);
  const Request requests[] = {group.isend(data, elements * 4, next, 5),
                              group.isend(data + elements, elements * 4, next, max_tag),
                              group.irecv(in + elements, elements * 4, before, max_tag),
                              group.irecv(in, elements * 4, before, 5)};
  for (Request request : requests) group.wait(request);
  std::vector<float> expected(static_cast<std::size_t>(2 * elements));
  fill(expected.data(), before, 2 * elements);
  CHECK(same(in, expected));
}

void check_everything(Communicator& group, void* memory) {
  for (std::int64_t elements : {0, 1, 2, 3, 5, 31, 4097, 100003}) {
    CAPTURE(elements, group.rank(), group.size());
    check_all_reduce(group, static_cast<float*>(memory), elements, Dtype::f32);
    check_all_reduce(group, static_cast<double*>(memory), elements, Dtype::f64);
    check_parts(group, static_cast<float*>(memory), elements, Dtype::f32);
    check_parts(group, static_cast<double*>(memory), elements, Dtype::f64);
    for (const Dtype dtype : {Dtype::f16, Dtype::bf16})
      check_16_bit(group, memory, elements, dtype);
    check_broadcast(group, static_cast<float*>(memory), elements);
    check_reduce(group, static_cast<float*>(memory), elements);
    check_apart(group, static_cast<float*>(memory), elements);
    check_all_to_all(group, static_cast<float*>(memory), elements);
    check_messages(group, static_cast<float*>(memory), elements);
    group.barrier();
  }
}

}  // namespace

constexpr std::int64_t memory_bytes = 100003 * 8 * 4;

TEST_CASE("collectives and messages are right for every size, in shared memory and without",
          "[exec][comm]") {
  World& world = test_world();
  void* shared = world.allocate(memory_bytes);
  std::vector<char> own(static_cast<std::size_t>(memory_bytes));
  const GroupKind kinds[] = {GroupKind::tensor, GroupKind::pipeline, GroupKind::rdp, GroupKind::dp};
  for (int size = 1; size <= std::min(4, world.size()); ++size) {
    std::vector<int> ranks(static_cast<std::size_t>(size));
    std::iota(ranks.begin(), ranks.end(), 0);
    if (world.rank() >= size) continue;
    const auto group = world.group(kinds[size - 1], ranks);
    REQUIRE(group->size() == size);
    REQUIRE(group->rank() == world.rank());
    check_everything(*group, shared);
    check_everything(*group, own.data());
  }
}

// Without shared memory a sum is made in rounds of 4 Mi elements. This sum takes a little more than
// two of them.
TEST_CASE("a sum of more elements than one round takes is whole", "[exec][comm]") {
  World& world = test_world();
  const auto group = group_of_all(world);
  constexpr std::int64_t elements = (std::int64_t{2} << 22) + 5;
  const auto held = [](int rank, std::int64_t i) { return float((i + i / 4099 + 7 * rank) % 61); };
  std::vector<float> data(static_cast<std::size_t>(elements));
  for (const bool maximum : {false, true}) {
    for (std::int64_t i = 0; i < elements; ++i)
      data[static_cast<std::size_t>(i)] = held(world.rank(), i);
    group->all_reduce(data.data(), elements, Dtype::f32, maximum);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < elements; ++i) {
      float expected = held(0, i);
      for (int rank = 1; rank < world.size(); ++rank)
        expected = maximum ? std::max(expected, held(rank, i)) : expected + held(rank, i);
      wrong += data[static_cast<std::size_t>(i)] != expected;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("a group over hosts is a grid of hosts and places", "[exec][comm]") {
  const std::vector<int> hosts{0, 0, 0, 3, 3, 3, 6, 6, 6};
  const std::vector<int> ranks{1, 2, 4, 5, 7, 8};
  const auto grid = host_grid(ranks, hosts, 5);  // rank 5 is the second rank of the second host
  REQUIRE(grid.has_value());
  CHECK(grid->hosts == 3);
  CHECK(grid->per_host == 2);
  CHECK(grid->inside == std::vector<int>{4, 5});
  CHECK(grid->rail == std::vector<int>{2, 5, 8});
  CHECK_FALSE(host_grid(std::vector<int>{0, 1, 2}, hosts, 1).has_value());     // one host
  CHECK_FALSE(host_grid(std::vector<int>{0, 3, 6}, hosts, 3).has_value());     // one of each
  CHECK_FALSE(host_grid(std::vector<int>{0, 1, 2, 3}, hosts, 1).has_value());  // 3 and 1
  CHECK_FALSE(host_grid(std::vector<int>{0, 1, 2, 3, 4, 6}, hosts, 1).has_value());
}

TEST_CASE("groups beside each other do not disturb each other", "[exec][comm]") {
  World& world = test_world();
  if (world.size() % 2 != 0) return;  // pairs
  void* memory = world.allocate(memory_bytes);
  const int first = world.rank() / 2 * 2;
  const int pair[] = {first, first + 1};
  const auto group = world.group(GroupKind::shard, pair);
  REQUIRE(group->size() == 2);
  check_everything(*group, memory);
}

TEST_CASE("ranks whose buffers are in shared memory and ranks whose are not get the same sums",
          "[exec][comm]") {
  World& world = test_world();
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  void* shared = world.allocate(memory_bytes);
  std::vector<char> own(static_cast<std::size_t>(memory_bytes));
  const auto group = world.group(GroupKind::world, ranks);
  check_everything(*group, world.rank() % 2 == 0 ? shared : own.data());
}

TEST_CASE("memory of other ranks is told from one's own", "[exec][comm]") {
  World& world = test_world();
  std::vector<int> ranks(static_cast<std::size_t>(world.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  constexpr std::int64_t part = 1 << 20;
  auto* memory = static_cast<char*>(world.allocate(part * world.size()));
  const auto group = world.group(GroupKind::world, ranks);
  const std::int64_t before = world.resident_bytes_of_others();
  group->all_gather(memory + part * world.rank(), memory, part);
  const std::int64_t touched = world.resident_bytes_of_others() - before;
  // With shared memory, one part of every other rank was read, with pages around it. With several
  // hosts, only the ranks on the same host count.
  const std::int64_t others = part * (world.size() - 1);
  CHECK((touched == 0 || (touched >= others / 2 && touched < others + world.size() * part / 4)));
  if (world.size() == 1) CHECK(touched == 0);
}

TEST_CASE("sums in a type that no rank can sum are refused", "[exec][comm]") {
  World& world = test_world();
  std::vector<int> ranks{world.rank()};
  const auto group = world.group(GroupKind::context, ranks);
  float x = 0;
  CHECK_THROWS_AS(group->all_reduce(&x, 1, Dtype::i32, false), RunError);
}
