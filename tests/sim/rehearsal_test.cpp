// Tests that recordings are read strictly, that their events are priced as the cost model prices
// kernels and collectives, and that a replayed step takes what streams, events and the host allow.
#include <random>

#include "hwprofiles/load.h"
#include "models/core/json.h"
#include "sim/cost/cost.h"
#include "sim/rehearsal/joined_kernels.h"
#include "sim/rehearsal/kernel_prices.h"
#include "sim/rehearsal/likely_step.h"
#include "sim/rehearsal/recorded_profile.h"
#include "sim/rehearsal/replay_recording.h"
#include "tests/catch.h"
#include "tests/message_of.h"

using namespace meshwright::tests;

namespace {

const std::string path = MESHWRIGHT_SOURCE_DIR "/tests/tools/recording.json";

json file() { return parse_json(read_file(path), path); }

Recording recording_of(json value) { return read_recording({std::move(value), "step.json"}); }

std::string refusal(const std::string& patch) {
  return message_of([&] { recording_of(file().patch(json::parse(patch))); });
}

Cluster eight_h100() { return {load_machine("p5.48xlarge"), 1, 8, {}, {}}; }

// Events whose times are multiples of a microsecond, and their replay without the driver's
// overhead.
struct Scene {
  Recording recording;
  std::vector<PricedEvent> priced;

  void add(double at_us, Recorded what, int stream, double lasts_us = 0,
           RecordedWork use = RecordedWork::others, std::int64_t event = -1) {
    RecordedEvent added;
    added.at_s = at_us * 1e-6;
    added.what = what;
    added.stream = stream;
    added.event = event;
    recording.events.push_back(added);
    PricedEvent price{to_sim_time({lasts_us * 1e-6}), use};
    if (use == RecordedWork::communication)
      price.loads[static_cast<std::size_t>(Port::nvlink_out)] = whole_port;
    priced.push_back(price);
    recording.streams = std::max(recording.streams, stream + 1);
  }
  ReplayedStep replayed(double slowdown = 0, double factor = 1) const {
    return replay_recording(recording, priced, slowdown, {factor, 0});
  }
};

double us(SimTime time) { return to_seconds(time).value * 1e6; }

// Returns a kernel of 100 us, after it a collective of 50 us beside a kernel of `beside_us`, and
// after both a kernel of 20 us. The host needs 70 us to issue them and works on until 100 us.
Scene two_streams(double beside_us, bool waits) {
  Scene scene;
  scene.add(10, Recorded::kernel, 0, 100, RecordedWork::products);
  scene.add(20, Recorded::record, 0, 0, {}, 7);
  scene.add(25, Recorded::wait, 1, 0, {}, 7);
  scene.add(30, Recorded::collective, 1, 50, RecordedWork::communication);
  scene.add(40, Recorded::kernel, 0, beside_us, RecordedWork::products);
  scene.add(50, Recorded::record, 1, 0, {}, 8);
  scene.add(55, Recorded::wait, 0, 0, {}, 8);
  scene.add(60, Recorded::kernel, 0, 20, RecordedWork::optimizer);
  if (waits) scene.add(70, Recorded::host_waits, 0);
  scene.recording.step_host_s = 100e-6;
  return scene;
}

}  // namespace

TEST_CASE("a recording is read with all that it says", "[rehearsal]") {
  const Recording recording = read_recording(read_json_file(path));
  CHECK(recording.machine == "p5.48xlarge");
  CHECK(recording.rank == 1);
  CHECK(recording.step_host_s == 1e-4);
  CHECK(recording.memory.peak_reserved_bytes == 24'000'000'000);
  REQUIRE(recording.batch);
  CHECK(recording.batch->tokens == 8192);
  CHECK(recording.batch->replicas == 8);
  CHECK(recording.state_bytes == 64'000'000'000);
  CHECK(recording.phases->at(static_cast<std::size_t>(StepPhase::forward)).kept_bytes ==
        9'000'000'000);
  CHECK(recording.versions.at("torch") == "2.15.0");
  CHECK(is_recording(read_file(path)));
  CHECK_FALSE(is_recording(R"({"model": "gpt2", "cluster": {"machine": "p5.48xlarge"}})"));
  REQUIRE(recording.kernels.size() == 3);
  CHECK(recording.kernels[0].kernel.precision == Precision::bf16);
  CHECK(recording.kernels[1].kernel.flops == recording.kernels[1].flops / 2);  // it is causal
  REQUIRE(recording.events.size() == 13);
  CHECK(recording.events[1].at_s == Approx(10.5e-6));
  CHECK(recording.events[4].collective == RecordedCollective::all_gather);
  CHECK(recording.events[6].peer == 1);
  CHECK(recording.events[11].kernel == -1);
  CHECK(recording.events[12].host_waits_for == HostWait::device);
}

TEST_CASE("a damaged recording is refused with its place", "[rehearsal]") {
  CHECK(refusal(R"([{"op": "remove", "path": "/step_host_s"}])") ==
        "step.json: /step_host_s: missing; it is required (a number)");
  CHECK(refusal(R"([{"op": "remove", "path": "/events/4/bytes"}])") ==
        "step.json: /events/4/bytes: missing; it is required (an integer)");
  CHECK(refusal(R"([{"op": "replace", "path": "/format", "value": 2}])")
            .starts_with("step.json: /format: format 2 is not known"));
  CHECK(refusal(R"([{"op": "replace", "path": "/events/1/kernel", "value": 3}])") ==
        "step.json: /events/1/kernel: there is no kernel 3; the file has 3");
  CHECK(refusal(R"([{"op": "replace", "path": "/events/1/stream", "value": -1}])") ==
        "step.json: /events/1/stream: there is no stream -1; the file has 3");
  CHECK(refusal(R"([{"op": "replace", "path": "/events/6/peer", "value": 2}])") ==
        "step.json: /events/6/peer: there is no member 2; the file has 2");
  CHECK(refusal(R"([{"op": "replace", "path": "/events/1/what", "value": "launch"}])") ==
        "step.json: /events/1/what: unknown event 'launch'; known: kernel, collective, copy, set, "
        "record, wait and host-waits");
  CHECK(refusal(R"([{"op": "replace", "path": "/kernels/0/kind", "value": "conv"}])")
            .starts_with("step.json: /kernels/0/kind: unknown kind of kernel 'conv'"));
  CHECK(refusal(R"([{"op": "replace", "path": "/groups/1/1", "value": 8}])") ==
        "step.json: /groups/1: 8 is no rank; there are 0 to 7");
  CHECK(refusal(R"([{"op": "replace", "path": "/groups/1/0", "value": 2}])") ==
        "step.json: /groups/1: the recorded rank 1 is not in it");
  CHECK(refusal(R"([{"op": "replace", "path": "/groups/1", "value": 3}])") ==
        "step.json: /groups/1: expected a list of ranks");
  CHECK(refusal(R"([{"op": "replace", "path": "/per_host", "value": 3}])") ==
        "step.json: /per_host: does not divide 8 ranks");
  CHECK(refusal(R"([{"op": "add", "path": "/events/3/ops", "value": 1}])") ==
        "step.json: /events/3/ops: unknown key; did you mean 'op'?");
  CHECK(refusal(R"([{"op": "replace", "path": "/batch/samples", "value": 0}])") ==
        "step.json: /batch/samples: must be 1 or more");
  CHECK(refusal(R"([{"op": "replace", "path": "/phases/0/phase", "value": "loss"}])") ==
        "step.json: /phases/0/phase: unknown phase 'loss'; known: forward, backward and optimizer");
  CHECK(refusal(R"([{"op": "replace", "path": "/events", "value": []}])") ==
        "step.json: /events: is empty; a step has at least one");
  CHECK(message_of([] { parse_json("", "step.json"); }).starts_with("step.json: line 1, column 1"));
}

TEST_CASE("other ranks' groups are shifts of the recorded one", "[rehearsal]") {
  CHECK(concurrent_groups({0, 1}, 4) == Groups{{0, 1}, {2, 3}});
  CHECK(concurrent_groups({5, 1}, 8) == Groups{{4, 0}, {5, 1}, {6, 2}, {7, 3}});
  CHECK(concurrent_groups({4, 6}, 8) == Groups{{0, 2}, {1, 3}, {4, 6}, {5, 7}});
  CHECK(concurrent_groups({0, 1, 2}, 3) == Groups{{0, 1, 2}});
  CHECK(concurrent_groups({1, 2}, 4) == Groups{{1, 2}});  // no shift from rank 0 on meets it
}

TEST_CASE("events are priced as kernels and collectives of a simulated step", "[rehearsal]") {
  const Recording recording = read_recording(read_json_file(path));
  Cluster cluster = eight_h100();
  KernelConstants& constants = cluster.machine.gpu.kernels;
  constants.straggling = 0;
  const Topology topology(cluster);
  const std::vector<PricedEvent> priced = price(recording, topology);
  REQUIRE(priced.size() == recording.events.size());

  constants.launches = {1, 1, 1};  // each launch is recorded
  const CostModel cost(cluster, StepSettings{});
  CHECK(priced[1].lasts == to_sim_time(KernelPrices(cluster).of(recording.kernels[0].kernel)));
  CHECK(priced[5].lasts == to_sim_time(cost.time(recording.kernels[1].kernel)));
  CHECK(priced[9].lasts == to_sim_time(cost.time(Kernel{.bytes = 1e9})));
  CHECK(priced[11].lasts == to_sim_time({cluster.machine.gpu.kernel_latency_s}));
  CHECK(to_seconds(priced[0].lasts).value ==
        Approx(1e6 / host_copy_bandwidth(cluster) + cluster.machine.gpu.kernel_latency_s));
  CHECK(priced[4].lasts == to_sim_time(collective_time(topology, CollectiveKind::all_gather,
                                                       {8 * 50e6}, {recording.groups[0]})));
  CHECK(priced[6].lasts ==
        to_sim_time(transfer_time(topology, {1e6}, {{0, 4}, {1, 5}, {2, 6}, {3, 7}})));
  for (const std::size_t event : {2, 3, 7, 8, 12}) CHECK(priced[event].lasts == 0);

  CHECK(priced[1].use == RecordedWork::products);
  CHECK(priced[5].use == RecordedWork::attention);
  CHECK(priced[9].use == RecordedWork::optimizer);
  CHECK(priced[10].use == RecordedWork::others);
  CHECK(priced[0].use == RecordedWork::copies);
  CHECK(priced[4].loads[static_cast<std::size_t>(Port::nvlink_out)] > 0);
  CHECK(priced[4].loads[static_cast<std::size_t>(Port::network_out)] == 0);

  CHECK_THROWS_AS(price(recording, Topology({load_machine("p5.48xlarge"), 2, 8, {}, {}})),
                  InputError);
}

TEST_CASE("a kernel is priced by the nearest measured shape", "[rehearsal]") {
  const Cluster cluster{load_machine("dgx-a100-80gb"), 1, 8, {}, {}};
  const Gpu& gpu = cluster.machine.gpu;
  const KernelPrices prices(cluster);
  const auto rate = [&](const Kernel& kernel) {
    return kernel.flops / (prices.of(kernel).value - gpu.kernel_latency_s);
  };
  const auto product = [](std::int64_t m, std::int64_t n, std::int64_t k) {
    return Kernel{.kind = Kernel::Kind::gemm,
                  .m = m,
                  .n = n,
                  .k = k,
                  .flops = 2.0 * static_cast<double>(m * n * k),
                  .precision = Precision::bf16};
  };
  // These are rows of hwprofiles/measured/a100.json.
  CHECK(rate(product(8192, 4096, 4096)) == Approx(265.4e12).epsilon(0.001));
  CHECK(rate(product(1024, 1024, 1024)) == Approx(119.8e12).epsilon(0.001));
  // Four times as many rows fill their waves a little better. One more column wastes most of a
  // tile.
  CHECK(rate(product(32768, 4096, 4096)) > 265.4e12);
  CHECK(rate(product(32768, 4096, 4096)) < 1.05 * 265.4e12);
  CHECK(rate(product(8192, 4096 + 1, 4096)) < 0.8 * rate(product(8192, 4096, 4096)));

  Kernel attention{.kind = Kernel::Kind::attention,
                   .m = 4096,
                   .n = 4096,
                   .k = 128,
                   .flops = 1e12,
                   .precision = Precision::bf16};
  CHECK(rate(attention) == Approx(129.6e12).epsilon(0.001));
  attention.backward = true;
  CHECK(rate(attention) == Approx(0.86 * 129.6e12).epsilon(0.001));
  attention.k = 64;
  CHECK(rate(attention) == Approx(0.86 * 0.82 * 129.6e12).epsilon(0.001));

  // Kernels without a measured rate, and kernels that memory bounds, cost the same as in a
  // simulated step.
  const CostModel cost = [&] {
    Cluster plain = cluster;
    plain.machine.gpu.kernels.launches = {1, 1, 1};
    return CostModel(plain, StepSettings{});
  }();
  Kernel other = product(4096, 4096, 16);
  other.precision = Precision::fp32;
  CHECK(prices.of(other).value == cost.time(other).value);
  Kernel thin = product(4096, 4096, 16);
  thin.bytes = 1e9;
  CHECK(prices.of(thin).value == cost.time(Kernel{.bytes = 1e9}).value);
}

TEST_CASE("products in 8 bits are priced without the kernel that quantizes", "[rehearsal]") {
  const Cluster cluster = eight_h100();
  const Gpu& gpu = cluster.machine.gpu;
  Kernel product{.kind = Kernel::Kind::gemm,
                 .m = 8192,
                 .n = 8192,
                 .k = 8192,
                 .flops = 2.0 * 8192 * 8192 * 8192,
                 .precision = Precision::fp8};
  // hwprofiles/measured/h100.json has 1243 TFLOP/s for this product, with quantization.
  const double measured_s = product.flops / 1243e12;
  CHECK(KernelPrices(cluster).of(product).value - gpu.kernel_latency_s ==
        Approx(measured_s - 9.7e-6 - 2.41e-12 * 8192 * 8192).epsilon(0.001));
  // An A100 has no arithmetic in 8 bits.
  const Cluster older{load_machine("dgx-a100-80gb"), 1, 8, {}, {}};
  CHECK(KernelPrices(older).of(product).value > 3 * measured_s);
}

TEST_CASE("attention is priced by the kernel that ran", "[rehearsal]") {
  const KernelPrices prices(eight_h100());
  const Kernel attention{.kind = Kernel::Kind::attention,
                         .m = 8192,
                         .n = 8192,
                         .k = 128,
                         .batch = 32,
                         .flops = 1e12,
                         .precision = Precision::bf16};
  CHECK(prices.of(attention).value == prices.of(attention, AttentionKernel::flash2).value);
  CHECK(prices.of(attention, AttentionKernel::cudnn).value < 0.8 * prices.of(attention).value);
  // An A100 has no such kernel of cuDNN's.
  const KernelPrices older({load_machine("dgx-a100-80gb"), 1, 8, {}, {}});
  CHECK(older.of(attention, AttentionKernel::cudnn).value == older.of(attention).value);
}

TEST_CASE("the interval of a rehearsed step depends on what bounds it", "[rehearsal]") {
  ReplayedStep step;
  step.step_time = to_sim_time({2});
  const LikelyStep kernels = likely_step(step);
  CHECK(kernels.low_s < 2);
  CHECK(kernels.high_s > 2);
  step.idle = to_sim_time({1});
  const LikelyStep host = likely_step(step);
  CHECK(host.high_s - host.low_s > kernels.high_s - kernels.low_s);
}

TEST_CASE("a step takes what streams, events and the host's wait allow", "[rehearsal]") {
  // The first kernel runs from 10 to 110 us, the collective from 110 to 160, the kernel beside it
  // from 110 to 190, and the last one until 210. Then the host works for 30 us more.
  const ReplayedStep step = two_streams(80, true).replayed();
  CHECK(us(step.step_time) == Approx(240));
  CHECK(us(step.computing) == Approx(200));
  CHECK(us(step.idle) == Approx(40));
  CHECK(step.exposed_communication == 0);
  CHECK(us(step.host_working) == Approx(100));
  CHECK(us(step.busy[static_cast<std::size_t>(RecordedWork::communication)]) == Approx(50));
  CHECK(us(step.busy[static_cast<std::size_t>(RecordedWork::optimizer)]) == Approx(20));

  // While the collective runs, the kernel does 50 / 1.5 of its 80 us of work.
  CHECK(us(two_streams(80, true).replayed(0.5).step_time) == Approx(240 + 50 - 50 / 1.5));

  // A shorter kernel leaves 30 us of the collective exposed: the last kernel runs from 160 to 180.
  const ReplayedStep exposed = two_streams(20, true).replayed();
  CHECK(us(exposed.step_time) == Approx(210));
  CHECK(us(exposed.exposed_communication) == Approx(30));
}

TEST_CASE("a host that does not wait runs ahead, and a slow one makes the device wait",
          "[rehearsal]") {
  const ReplayedStep ahead = two_streams(80, false).replayed();
  CHECK(us(ahead.step_time) == Approx(200));  // the kernels of stream 0
  CHECK(ahead.idle == 0);
  const ReplayedStep slow = two_streams(80, false).replayed(0, 3);
  CHECK(us(slow.step_time) == Approx(300));  // the host's
  CHECK(us(slow.idle) == Approx(100));
  const Scene scene = two_streams(80, false);
  const ReplayedStep launched = replay_recording(scene.recording, scene.priced, 0, {1, 60e-6});
  CHECK(us(launched.step_time) == Approx(100 + 4 * 60));  // four of its events launch
}

TEST_CASE("kernels of two streams at once share the GPU", "[rehearsal]") {
  Scene scene;
  scene.add(0, Recorded::kernel, 0, 100, RecordedWork::products);
  scene.add(0, Recorded::kernel, 1, 60, RecordedWork::others);
  scene.add(0, Recorded::copy, 2, 150, RecordedWork::copies);
  scene.add(10, Recorded::host_waits, 0);
  scene.recording.step_host_s = 10e-6;
  const ReplayedStep step = scene.replayed();
  CHECK(us(step.step_time) == Approx(160));  // one after the other would take as long
  CHECK(us(step.computing) == Approx(160));
  CHECK(us(step.busy[static_cast<std::size_t>(RecordedWork::others)]) == Approx(120));
}

TEST_CASE("the host runs no more than a full queue ahead", "[rehearsal]") {
  Scene scene;
  for (int i = 0; i < 2000; ++i) scene.add(0, Recorded::kernel, 0, 1);
  scene.recording.step_host_s = 1500e-6;
  // After 976 us the last 1,024 kernels are in the queue. The host then works for 1,500 us more.
  CHECK(us(scene.replayed().step_time) == Approx(2000 - 1024 + 1500).margin(2));
}

TEST_CASE("the host waits for a copy, a stream or an event, and for nothing else", "[rehearsal]") {
  const auto step_of = [](const RecordedEvent& wait) {
    Scene scene;
    // Copies share nothing, so each stream ends as if it were alone.
    scene.add(0, Recorded::copy, 0, 100, RecordedWork::copies);
    scene.add(0, Recorded::copy, 1, 40, RecordedWork::copies);
    scene.add(0, Recorded::record, 1, 0, {}, 3);
    scene.add(0, Recorded::copy, 1, 20, RecordedWork::copies);
    scene.add(0, wait.what, wait.stream, wait.what == Recorded::copy ? 10 : 0, RecordedWork::copies,
              wait.event);
    scene.recording.events.back() = wait;
    scene.add(1, Recorded::kernel, 2, 200);  // shows when the host came to it
    scene.add(1, Recorded::host_waits, 0);
    scene.recording.step_host_s = 1e-6;
    return us(scene.replayed().step_time) - 201;
  };
  RecordedEvent wait;
  wait.what = Recorded::host_waits;
  CHECK(step_of(wait) == Approx(100));
  wait.host_waits_for = HostWait::stream;
  wait.stream = 1;
  CHECK(step_of(wait) == Approx(60));
  wait.host_waits_for = HostWait::event;
  wait.event = 3;
  CHECK(step_of(wait) == Approx(40));
  wait.event = 4;  // was never recorded
  CHECK(step_of(wait) == Approx(0).margin(1e-6));
  RecordedEvent copy;
  copy.what = Recorded::copy;
  copy.stream = 1;
  CHECK(step_of(copy) == Approx(0).margin(1e-6));
  copy.waits = true;
  CHECK(step_of(copy) == Approx(70));
}

TEST_CASE("on twice as fast a machine no recorded step takes longer", "[rehearsal]") {
  Cluster slow = eight_h100();
  slow.machine.gpu.kernels.overlap_slowdown = 0;  // by which a faster kernel may slow another one
  Cluster fast = slow;
  fast.machine.gpu.memory_bandwidth_bytes_per_s *= 2;
  for (double& peak : fast.machine.gpu.peak_flop_per_s) peak *= 2;
  const Topology slow_topology(slow), fast_topology(fast);
  std::mt19937 random(1);
  const auto below = [&](int end) {
    return static_cast<int>(random() % static_cast<unsigned>(end));
  };
  const json given = file();
  for (int round = 0; round < 200; ++round) {
    json value = given;
    json events = json::array();
    double at = 0;
    for (int i = 0; i < 60; ++i) {
      json event = given["events"][static_cast<std::size_t>(below(13))];
      if (event["what"] != "host-waits" && event["what"] != "collective")
        event["stream"] = below(3);
      event["at"] = at += below(20);
      events.push_back(event);
    }
    events.push_back({{"at", at}, {"what", "host-waits"}, {"for", "device"}});
    value["events"] = events;
    value["step_host_s"] = (at + 10) * 1e-6;
    const Recording recording = recording_of(value);
    const auto step_time = [&](const Topology& topology) {
      return replay_recording(recording, price(recording, topology), 0).step_time;
    };
    CAPTURE(round);
    CHECK(step_time(fast_topology) <= step_time(slow_topology) + 1000);  // a nanosecond
  }
}

TEST_CASE("the spans of a step fill it, for the host and for each stream", "[rehearsal]") {
  using Lane = RecordedSpan::Lane;
  const Scene scene = two_streams(80, true);
  std::vector<RecordedSpan> spans;
  const ReplayedStep step = replay_recording(scene.recording, scene.priced, 0, {1, 0}, &spans);
  SimTime host = 0, first_stream = 0, second_stream = 0;
  for (const RecordedSpan& span : spans) {
    CHECK((span.begin >= 0 && span.begin < span.end && span.end <= step.step_time));
    const bool on_device = span.lane == Lane::device;
    const bool second =
        on_device && scene.recording.events[static_cast<std::size_t>(span.event)].stream == 1;
    (!on_device ? host : second ? second_stream : first_stream) += span.end - span.begin;
  }
  CHECK(host == step.step_time);  // it works or waits
  CHECK(us(first_stream) == Approx(200));
  CHECK(us(second_stream) == Approx(50));
}

TEST_CASE("a recorded step joins its own profile, and a slower kernel in it shows", "[rehearsal]") {
  const Recording recording = read_recording(read_json_file(path));
  const Topology topology(eight_h100());
  std::vector<RecordedSpan> spans;
  const ReplayedStep step = replay_recording(recording, price(recording, topology), 0, {}, &spans);
  ProfilerTrace profile = recorded_profile(recording, spans, step.step_time);
  CHECK(profile.kernels.size() == 8);
  const JoinedKernels same = joined_kernels(recording, spans, profile);
  for (const JoinedKind& kind : same.kinds) {
    CHECK(kind.predicted_runs == kind.measured_runs);
    CHECK(kind.predicted == kind.measured);
  }
  CHECK(same.kernels.size() == 8);

  const auto product =
      std::ranges::find(profile.kernels, KernelKind::products, &ProfiledKernel::kind);
  REQUIRE(product != profile.kernels.end());
  product->end += 1'000'000'000;
  const auto attention =
      std::ranges::find(profile.kernels, KernelKind::attention, &ProfiledKernel::kind);
  REQUIRE(attention != profile.kernels.end());
  profile.kernels.erase(attention);  // its kind has another number of kernels then
  const JoinedKernels off = joined_kernels(recording, spans, profile);
  CHECK(off.kernels.size() == 7);
  CHECK(off.kernels.front().kind == KernelKind::products);
  CHECK(off.kernels.front().measured - off.kernels.front().predicted == 1'000'000'000);
}
