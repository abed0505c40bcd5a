// Tests events of PyTorch's profiler, each with only a part of the fields that real events have:
// the device of a kernel, when it was launched, and where times end.
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "models/core/error.h"
#include "sim/predict/profiler_trace.h"
#include "tests/catch.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

json event(const std::string& category, const std::string& name, double ts, double dur,
           const json& more = json::object()) {
  json made = {{"ph", "X"}, {"cat", category}, {"name", name}, {"ts", ts}, {"dur", dur}};
  made.update(more);
  return made;
}

json kernel(double ts, double dur, const json& more = json::object()) {
  return event("kernel", "k", ts, dur, more);
}

std::optional<ProfilerTrace> read(const std::vector<json>& events,
                                  const json& more = json::object()) {
  const TestFolder folder;
  json trace = {{"traceEvents", events}};
  trace.update(more);
  return read_profiler_trace(folder.file("trace.json", trace.dump()));
}

std::string refusal(const std::vector<json>& events, const json& more = json::object()) {
  const TestFolder folder;
  json trace = {{"traceEvents", events}};
  trace.update(more);
  const std::string path = folder.file("trace.json", trace.dump());
  try {
    read_profiler_trace(path);
  } catch (const InputError& error) {
    return std::string(error.what()).substr(path.size());
  }
  return "";
}

json on(int pid, const json& arguments) { return {{"pid", pid}, {"args", arguments}}; }

}  // namespace

TEST_CASE("a kernel is of the device that its arguments name, else of its process", "[explain]") {
  const std::string two = ": holds kernels of 2 devices; give the trace of one rank, which has one";
  CHECK(refusal({kernel(1, 1, on(0, {{"device", 3}})), kernel(3, 1, on(7, {{"device", 3}}))})
            .empty());
  CHECK(refusal({kernel(1, 1, on(7, {{"device", 0}})), kernel(3, 1, on(7, {{"device", 1}}))}) ==
        two);
  CHECK(refusal({kernel(1, 1, on(7, {{"stream", 0}})), kernel(3, 1, on(7, {{"stream", 9}}))})
            .empty());
  CHECK(refusal({kernel(1, 1, {{"pid", 0}}), kernel(3, 1, {{"pid", 1}})}) == two);
  CHECK(refusal({kernel(1, 1), kernel(3, 1)}).empty());
}

TEST_CASE("a kernel was launched when the call of its correlation began", "[explain]") {
  const auto with = [](int correlation) { return json{{"args", {{"correlation", correlation}}}}; };
  const auto trace =
      read({event("cuda_runtime", "cudaLaunchKernel", 100, 5, with(8)),
            event("cuda_runtime", "cudaLaunchKernel", 110, 5, with(9)), kernel(150, 20, with(9)),
            kernel(130, 10, with(8)), kernel(180, 1, with(77)), kernel(190, 2)});
  REQUIRE(trace);
  // Begins, ends and launch times since the first event, in microseconds, by begin.
  const std::vector<std::vector<SimTime>> expected = {
      {30, 40, 0}, {50, 70, 10}, {80, 81, 80}, {90, 92, 90}};
  REQUIRE(trace->kernels.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(trace->kernels[i].begin == expected[i][0] * 1'000'000);
    CHECK(trace->kernels[i].end == expected[i][1] * 1'000'000);
    CHECK(trace->kernels[i].launched == expected[i][2] * 1'000'000);
  }
  CHECK(trace->end == 92'000'000);
}

TEST_CASE("steps are those of the host, by their begin, and the trace ends with the last of all",
          "[explain]") {
  const auto trace = read({kernel(10, 1), event("user_annotation", "ProfilerStep#4", 30, 25),
                           event("gpu_user_annotation", "ProfilerStep#9", 30, 999),
                           event("user_annotation", "ProfilerStep#3", 12, 17),
                           event("user_annotation", "ProfilerStep#x", 12, 999),
                           event("user_annotation", "other", 1, 999)});
  REQUIRE(trace);
  REQUIRE(trace->steps.size() == 2);
  CHECK(trace->steps[0].number == 3);
  CHECK(trace->steps[0].begin == 2'000'000);
  CHECK(trace->steps[0].end == 19'000'000);
  CHECK(trace->steps[1].number == 4);
  CHECK(trace->end == 45'000'000);
}

TEST_CASE("times are read to the nanosecond, and refused where they cannot be", "[explain]") {
  const auto trace = read({kernel(0.5, 0.0014), kernel(0.7504, 1)});
  REQUIRE(trace);
  CHECK(trace->kernels[0].end == 1'000);      // 1.4 ns
  CHECK(trace->kernels[1].begin == 250'000);  // 250.4 ns
  CHECK(refusal({kernel(1, 0)}).empty());
  CHECK(refusal({kernel(1, -1)}) == ": /traceEvents/0: 'k': its 'dur' is negative");
  CHECK(refusal({kernel(1, 1), kernel(2e12, 1)}) ==
        ": /traceEvents/1: 'k': lies or lasts more than eleven days beyond the trace's first "
        "event");
}
