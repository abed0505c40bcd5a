// Machines as people name them.
#include "hwprofiles/machine_words.h"

#include <algorithm>
#include <string>
#include <vector>

#include "hwprofiles/load.h"
#include "tests/catch.h"
#include "tests/message_of.h"

using namespace meshwright::tests;

namespace {

struct MeantRow {
  const char* words;
  const char* machine;
  int hosts, processes;
};

}  // namespace

TEST_CASE("machines are found as people write them", "[hwprofiles][words]") {
  const MeantRow rows[] = {{"p5.48xlarge", "p5.48xlarge", 0, 0},
                           {"ml.p4d.24xlarge", "p4d.24xlarge", 0, 0},
                           {"P4D.24XLARGE", "p4d.24xlarge", 0, 0},
                           {"p4d 24xlarge", "p4d.24xlarge", 0, 0},
                           {"DGX-H100", "dgx-h100", 0, 0},
                           {"DGX H100", "dgx-h100", 0, 0},
                           {"dgx_h100", "dgx-h100", 0, 0},
                           {"DGX A100 40 GB", "dgx-a100-40gb", 0, 0},
                           {"4 DGX A100 40GB", "dgx-a100-40gb", 4, 0},
                           {"4x dgx-a100-40gb", "dgx-a100-40gb", 4, 0},
                           {"dgx-a100-40gb x 4", "dgx-a100-40gb", 4, 0},
                           {"2xp4d.24xlarge", "p4d.24xlarge", 2, 0},
                           {"8xH100", "p5.48xlarge", 1, 0},
                           {"8 x H100", "p5.48xlarge", 1, 0},
                           {"8×H100", "p5.48xlarge", 1, 0},
                           {"H100x8", "p5.48xlarge", 1, 0},
                           {"H100:8", "p5.48xlarge", 1, 0},
                           {"h100 x 16", "p5.48xlarge", 2, 0},
                           {"64 H100", "p5.48xlarge", 8, 0},
                           {"4xH100", "p5.48xlarge", 1, 4},
                           {"1xH100", "p5.4xlarge", 1, 0},
                           {"A100-80GB x 16", "p4de.24xlarge", 2, 0},
                           {"16x A100 80GB", "p4de.24xlarge", 2, 0},
                           {"16 A100-40GB", "p4d.24xlarge", 2, 0},
                           {"8xNVIDIA V100-16GB", "p3.16xlarge", 1, 0},
                           {"1 T4", "g4dn.xlarge", 1, 0},
                           {"16 A10G", "g5.48xlarge", 2, 0},
                           {"8xH200", "p5en.48xlarge", 1, 0},
                           {"8xB200", "p6-b200.48xlarge", 1, 0},
                           {"8xL40S", "g6e.48xlarge", 1, 0}};
  for (const auto& [words, machine, hosts, processes] : rows) {
    CAPTURE(words);
    const MachineWords meant = machines_meant(words);
    CAPTURE(meant.note);
    REQUIRE(!meant.machines.empty());
    const Machine found = load_machine(meant.machines.front());
    // Two machines may have the same GPUs in equal hosts; the words do not tell them apart.
    if (meant.machines.front() != machine) CHECK(found.gpu.name == load_machine(machine).gpu.name);
    CHECK(meant.machines.size() == 1);
    CHECK(meant.hosts == hosts);
    CHECK(meant.processes_per_host == processes);
  }
}

TEST_CASE("groups of machines have their members", "[hwprofiles][words]") {
  const auto group = [](const char* words) { return machines_meant(words).machines; };
  CHECK(group("p5") == std::vector<std::string>{"p5.48xlarge", "p5.4xlarge"});
  CHECK(group("p4") == std::vector<std::string>{"p4d.24xlarge", "p4de.24xlarge"});
  CHECK(group("dgx").size() == 10);
  CHECK(group("DGX") == group("dgx"));
  for (const std::string& name : group("aws")) CHECK(name.find('.') != std::string::npos);
  CHECK(group("AWS").size() > 30);
  for (const std::string& name : group("H100"))
    CHECK(load_machine(name).gpu.name.starts_with("H100"));
  CHECK(group("H100").size() > 2);
  CHECK(group("local").empty());
  CHECK(group("").empty());
  CHECK(group("abacus").empty());
  CHECK(group("8x abacus").empty());
}

TEST_CASE("other clouds' instances are answered with the nearest machine", "[hwprofiles][words]") {
  for (const char* words :
       {"a3-highgpu-8g", "ND96isr_H100_v5", "Standard_ND96isr_H100_v5", "BM.GPU.H100.8",
        "gpu_8x_h100_sxm5", "a2-ultragpu-8g", "Standard_ND96amsr_A100_v4", "a3-ultragpu-8g"}) {
    CAPTURE(words);
    const std::string message = message_of([&] { machines_meant(words); });
    CHECK(message.find("the nearest machine is p") != std::string::npos);
  }
  CHECK(message_of([] { machines_meant("a3-highgpu-8g"); }) ==
        "'a3-highgpu-8g' is an instance of Google Cloud, which has no profile here; the nearest "
        "machine is p5.48xlarge (8 x H100-SXM5-80GB), whose network and prices are its own");
}
