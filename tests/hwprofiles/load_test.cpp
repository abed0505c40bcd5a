#include "hwprofiles/load.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "hwprofiles/machine_like.h"
#include "hwprofiles/measured_rates.h"
#include "hwprofiles/parts.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

// Returns the message with which the profile of p4d is rejected after a change, or "" if it is
// accepted.
std::string refusal(const std::function<void(json&)>& change) {
  json profile = json::parse(text_of(load_machine("p4d.24xlarge")));
  change(profile);
  const TestFolder folder;
  const std::string path = folder.file("changed.json");
  std::ofstream(path) << profile;
  try {
    load_machine_file(path);
  } catch (const InputError& error) {
    return std::string(error.what()).substr(path.size() + 2);
  }
  return "";
}

}  // namespace

TEST_CASE("every machine that comes with the program reads, and says where its numbers are from",
          "[hwprofiles]") {
  const auto names = list_machines();
  CHECK(names.size() > 50);
  for (const std::string& name : names) {
    INFO(name);
    const Machine machine = load_machine(name);
    CHECK(machine.name == name);
    CHECK(machine.gpu.supports(Precision::fp16));
    CHECK(machine.sources.size() >= 8);
    CHECK(machine.gpu.compute_capability >= 7);
    if (const MeasuredRates* rates = measured_rates(machine.gpu)) {
      for (const MeasuredProduct& each : rates->products.measured)
        CHECK(each.flop_per_s <= machine.gpu.peak(Precision::bf16).value);
      for (const MeasuredProduct& each : rates->products_in_8_bits.measured)
        CHECK(each.flop_per_s <= machine.gpu.peak(Precision::fp8).value);
    }
    for (const auto& [block, source] : machine.sources) CHECK(source.size() > 5);
  }
}

TEST_CASE("machines have the numbers of their data sheets", "[hwprofiles]") {
  const Machine p3 = load_machine("p3.16xlarge");
  CHECK(p3.gpu.peak(Precision::fp16).value == 125e12);
  CHECK_FALSE(p3.gpu.supports(Precision::bf16));
  for (const auto& row : p3.nvlink.links_between) {  // a V100 has 6 NVLinks
    int links = 0;
    for (const int count : row) links += count;
    CHECK(links == 6);
  }
  const Machine p5 = load_machine("ml.p5.48xlarge");
  CHECK(p5.gpu.peak(Precision::fp8).value == 1979e12);
  CHECK(p5.network.nics * p5.network.gbit_per_s_each == 3200);
  CHECK(find_price(p5.prices, {})->usd_per_hour == 55.04);
  CHECK(load_machine("dgx-2").gpus == 16);
  const Machine rack = load_machine("gb200-nvl72");  // 18 trays of 4
  CHECK(rack.gpus == 72);
  CHECK(rack.gpu.peak(Precision::nvfp4).value == 10e15);
  CHECK(rack.calibration == Calibration::links);
  CHECK(machine_of_text(text_of(rack), "again").gpu.peak(Precision::nvfp4).value == 10e15);
  CHECK(load_machine("u-p6e-gb200x36").gpus == 36);
  CHECK(load_machine("p6e-gb200-u72").prices.front().usd_per_hour == 761.904);
  CHECK(load_machine("p5.4xlarge").gpus == 1);
  // Instances of one family differ only in GPUs, network, host and price.
  for (const auto& [name, gpus, gbit_per_s, usd] :
       {std::tuple{"g5.xlarge", 1, 2.5, 1.006}, std::tuple{"g5.12xlarge", 4, 40.0, 5.672},
        std::tuple{"g5.24xlarge", 4, 50.0, 8.144}, std::tuple{"g4dn.xlarge", 1, 5.0, 0.526},
        std::tuple{"g4dn.8xlarge", 1, 50.0, 2.176}, std::tuple{"g4dn.metal", 8, 100.0, 7.824},
        std::tuple{"g6.xlarge", 1, 2.5, 0.8048}, std::tuple{"g6e.24xlarge", 4, 200.0, 15.06559}}) {
    INFO(name);
    const Machine machine = load_machine(name);
    CHECK(machine.gpus == gpus);
    const std::map<std::string, std::string> gpus_of = {
        {"g4dn", "T4"}, {"g5", "A10G"}, {"g6", "L4-24GB"}, {"g6e", "L40S-48GB"}};
    CHECK(machine.gpu.name == gpus_of.at(machine.name.substr(0, machine.name.find('.'))));
    CHECK(machine.network.nics * machine.network.gbit_per_s_each == gbit_per_s);
    CHECK(find_price(machine.prices, {})->usd_per_hour == usd);
  }
  CHECK(load_machine("dgx-1v").name == "dgx-1v-16gb");  // an alias
}

TEST_CASE("an unknown machine names its nearest neighbour", "[hwprofiles]") {
  CHECK_THROWS_WITH(load_machine("p4d.24xlrage"),
                    "unknown machine 'p4d.24xlrage'; did you mean 'p4d.24xlarge'? "
                    "`meshwright list machines` lists them");
  CHECK_THROWS_AS(load_machine("../../etc/passwd"), InputError);
}

TEST_CASE("a profile is read strictly", "[hwprofiles]") {
  CHECK(refusal([](json&) {}) == "");
  CHECK(refusal([](json& p) { p["gpu"].erase("source"); }) ==
        "/gpu/source: missing; every block of a profile says where its numbers come from");
  CHECK(refusal([](json& p) { p["gpu"]["sm_cuont"] = 1; }) ==
        "/gpu/sm_cuont: unknown key; did you mean 'sm_count'?");
  CHECK(refusal([](json& p) { p["gpu"]["memory_bytes"] = -1; }) ==
        "/gpu/memory_bytes: -1 is out of range; use 1e-12 to 1e+21");
  CHECK(refusal([](json& p) { p["gpus"] = 577; }) == "/gpus: at most 576 per host");
  CHECK(refusal([](json& p) { p["gpu"]["peak_flop_per_s"]["fp4"] = -1; }) ==
        "/gpu/peak_flop_per_s/fp4: -1 is out of range; use 1000 to 1e+21");
  CHECK(refusal([](json& p) { p["nvlink"]["efficiency"] = 77; }) ==
        "/nvlink/efficiency: is a share of the peak and must not exceed 1");
  CHECK(refusal([](json& p) {
          p["efficiency"]["gemm"] = {{2, 0.5}, {1, 0.8}};
        }) == "/efficiency/gemm: sizes must grow from pair to pair");
  CHECK(refusal([](json& p) {
          p["pcie"]["switches"][0]["gpus"] = {0, 0};
        }) == "/pcie/switches: must name each of the 8 GPUs exactly once, counted from 0");
  CHECK(refusal([](json& p) { p["nvlink"]["kind"] = "matrix"; }) ==
        "/nvlink/links_between: missing; it is required (a value)");
  CHECK(refusal([](json& p) { p["gpu"]["peak_flop_per_s"].erase("fp32"); }) ==
        "/gpu/peak_flop_per_s/fp32: missing; every device computes in fp32");
}

TEST_CASE("parts of a profile are put together field by field", "[hwprofiles]") {
  const TestFolder folder;
  const auto write = [&](const char* name, const json& value) {
    std::ofstream(folder.file(name)) << value;
    return folder.file(name);
  };
  const auto merged = [&](const json& own) {
    return with_parts(read_json_file(write("own.json", own)), folder.path());
  };
  write("a.json", {{"host", {{"source", "A"}, {"vcpus", 1}, {"memory_bytes", 2}}}});
  write("b.json",
        {{"parts", {"a"}}, {"host", {{"source", "B"}, {"vcpus", 3}}}, {"gpu", {{"name", "x"}}}});
  Profile profile =
      merged({{"parts", {"a", "b"}}, {"host", {{"source", "own"}, {"host_launch_us", 5}}}});
  CHECK(profile.fields.raw() ==
        json{{"host",
              {{"source", "own. B. A"}, {"vcpus", 3}, {"memory_bytes", 2}, {"host_launch_us", 5}}},
             {"gpu", {{"name", "x"}}}});
  CHECK(profile.file_of["host"] == folder.file("own.json"));
  CHECK(profile.file_of["gpu"] == folder.file("b.json"));
  CHECK(part_files(folder.file("own.json"), folder.path()) ==
        std::vector{folder.file("a.json"), folder.file("b.json")});
  write("c.json", {{"parts", {"c"}}});
  CHECK(message_of([&] {
          merged({{"parts", {"c"}}});
        }) == folder.file("c.json") + ": /parts: 'c' is a part of itself");
  CHECK(message_of([&] {
          merged({{"parts", {"d"}}});
        }) == folder.file("own.json") + ": /parts: there is no part 'd' (" + folder.file("d.json") +
                  "); did you mean 'a'? `meshwright list parts` lists them");
}

TEST_CASE("what is wrong in a part is said with the part's name", "[hwprofiles]") {
  json profile = json::parse(read_file(profiles_folder() + "/p4d.24xlarge.json"));
  CHECK(message_of([&] {
          machine_of_text(json{{"parts", {"gpus/t5"}}}.dump(), "own");
        }).ends_with("did you mean 'gpus/t4'? `meshwright list parts` lists them"));
  profile["parts"][1] = "gpus/v100";  // there is no such part, only one for each memory size
  CHECK(message_of([&] { machine_of_text(profile.dump(), "own"); }) ==
        "own: /gpu: missing; it is required (an object)");
}

TEST_CASE("parts that profiles may name are listed", "[hwprofiles]") {
  const std::vector<std::string> names = part_names(parts_folder());
  const auto has = [&](const char* name) { return std::ranges::count(names, name) == 1; };
  CHECK(has("common"));
  CHECK(has("gpus/t4"));
  CHECK(has("interconnects/efa-p5"));
  CHECK_FALSE(has("prices"));
}

TEST_CASE("a written profile reads back as the same machine", "[hwprofiles]") {
  for (const char* name : {"p3.16xlarge", "g5.4xlarge", "p4d.24xlarge"}) {
    const TestFolder folder;
    const std::string first = folder.file("first.json"), second = folder.file("second.json");
    write_machine(load_machine(name), first);
    write_machine(load_machine_file(first), second);
    CHECK(read_file(first) == read_file(second));
    CHECK(load_machine_file(first).sources == load_machine(name).sources);
    CHECK(load_machine_file(first).nvlink.links_between == load_machine(name).nvlink.links_between);
  }
}

TEST_CASE("a CPU computer is a machine too", "[hwprofiles]") {
  Machine local;
  local.name = "local";
  local.gpus = 64;
  local.gpu.name = "cpu";
  local.gpu.kind = DeviceKind::cpu;
  local.gpu.sm_count = 2;
  local.gpu.memory_bytes = 8e9;
  local.gpu.memory_bandwidth_bytes_per_s = 20e9;
  local.gpu.peak_flop_per_s[0] = 50e9;
  local.gpu.gemm = {{{1e6, 0.3}, {1e9, 0.9}}};
  local.gpu.thread_scaling = {{2, {{{1e6, 0.6}}}, {{{1e5, 0.7}}}, {{{1e4, 0.8}}}}};
  local.shared_memory = SharedMemory{4e9, 6e9, 1e9};
  local.host = {2, 8e9, 0};
  local.concurrent_streams = false;
  local.calibration = Calibration::this_machine;
  for (const char* block :
       {"gpu", "efficiency", "shared_memory", "collectives", "host", "overheads"})
    local.sources.emplace_back(block, "measured by calibrate");
  const TestFolder folder;
  const std::string path = folder.file("local.json");
  write_machine(local, path);
  const Machine read = load_machine_file(path);
  CHECK(read.gpu.kind == DeviceKind::cpu);
  CHECK_FALSE(read.concurrent_streams);
  CHECK(read.shared_memory->total_bandwidth_bytes_per_s == 6e9);
  CHECK(read.shared_memory->copy_bandwidth_bytes_per_s == 1e9);
  CHECK(read.gpu.gemm.at(1e9) == 0.9);
  CHECK(read.prices.empty());
  REQUIRE(read.gpu.thread_scaling.size() == 1);
  CHECK(read.gpu.thread_scaling[0].threads == 2);
  CHECK(read.gpu.thread_scaling[0].gemm.at(1) == 0.6);
  CHECK(read.gpu.thread_scaling[0].memory_bound.at(1) == 0.7);
  CHECK(read.gpu.thread_scaling[0].attention.at(1) == 0.8);
  local.gpu.thread_scaling.clear();  // as in profiles of earlier versions
  CHECK(machine_of_text(text_of(local), "earlier").gpu.thread_scaling.empty());
  local.gpu.thread_scaling = {read.gpu.thread_scaling[0], read.gpu.thread_scaling[0]};
  CHECK(message_of([&] { machine_of_text(text_of(local), "twice"); }) ==
        "twice: /efficiency/thread_scaling/1/threads: must grow from entry to entry");
}

TEST_CASE("curves of attention survive a profile that is written and read", "[load]") {
  Machine machine = load_machine("p4d.24xlarge");
  machine.gpu.attention.points = {{1e6, 0.25}, {1e9, 0.5}};
  machine.gpu.attention_backward.points = {{1e6, 0.125}, {1e9, 0.375}};
  CHECK_FALSE(machine.runs_engine());
  machine.calibration = Calibration::this_machine;
  const Machine read = machine_of_text(text_of(machine), "written");
  CHECK(read.gpu.attention.at(1e9) == 0.5);
  CHECK(read.gpu.attention_backward.at(1e6) == 0.125);
  CHECK(read.gpu.attention_backward.at(1e9) == 0.375);
  CHECK(read.runs_engine());
}

TEST_CASE("a GPU is recognised by the driver's name, its multiprocessors and its memory",
          "[load]") {
  struct Row {
    const char* driver;
    int multiprocessors;
    double gibibytes;
    int gpus;
    const char* expected;
  };
  const Row rows[] = {{"NVIDIA H100 80GB HBM3", 132, 79.1, 8, "H100-SXM5-80GB"},
                      {"NVIDIA H200", 132, 139.8, 1, "H200-SXM5-141GB"},
                      {"NVIDIA A100-SXM4-40GB", 108, 39.4, 8, "A100-SXM4-40GB"},
                      {"NVIDIA A100-SXM4-80GB", 108, 79.3, 8, "A100-SXM4-80GB"},
                      {"Tesla V100-SXM2-16GB", 80, 15.8, 4, "V100-SXM2-16GB"},
                      {"NVIDIA A10G", 80, 22.0, 4, "A10G"}};
  for (const Row& row : rows) {
    CAPTURE(row.driver);
    Gpu gpu;
    gpu.name = row.driver;
    gpu.sm_count = row.multiprocessors;
    gpu.memory_bytes = row.gibibytes * 1024 * 1024 * 1024;
    const std::optional<Machine> found = machine_like(gpu, row.gpus);
    REQUIRE(found);
    CHECK(found->gpu.name == row.expected);
  }
  Gpu other;
  other.name = "NVIDIA H100 PCIe";
  other.sm_count = 114;
  CHECK_FALSE(machine_like(other, 1));
  other.name = "NVIDIA A1000";
  other.sm_count = 108;
  CHECK_FALSE(machine_like(other, 1));
}
