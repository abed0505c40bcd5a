// Tests how words of people for machines are read.
#include "hwprofiles/machine_words.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "hwprofiles/load.h"
#include "hwprofiles/unprofiled.h"
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
                           {"8xL40S", "g6e.48xlarge", 1, 0},
                           {"8 NVIDIA H100 GPUs", "p5.48xlarge", 1, 0},
                           {"16 GPUs H100", "p5.48xlarge", 2, 0},
                           {"8x H100 SXM5 80GB", "p5.48xlarge", 1, 0},
                           {"8 H100s", "p5.48xlarge", 1, 0},
                           {"1,024xH100", "p5.48xlarge", 128, 0},
                           {"1k H100", "p5.48xlarge", 125, 0},
                           {"2 nodes of 8 H100", "p5.48xlarge", 2, 0},
                           {"2x8xH100", "p5.48xlarge", 2, 0},
                           {"2 x 8 x H100", "p5.48xlarge", 2, 0},
                           {"2 hosts of 8xH100", "p5.48xlarge", 2, 0},
                           {"8xH100 x 2", "p5.48xlarge", 2, 0},
                           {"4 nodes 8xA100-40GB", "p4d.24xlarge", 4, 0},
                           {"2 nodes x 4 A100-80GB", "p4de.24xlarge", 2, 4},
                           {"A100 80G x 8", "p4de.24xlarge", 1, 0},
                           {"8xA100-80G", "p4de.24xlarge", 1, 0},
                           {"8 x A100 (80GB)", "p4de.24xlarge", 1, 0},
                           {"8*a100-40g", "p4d.24xlarge", 1, 0},
                           {"4x ml.p5.48xlarge", "p5.48xlarge", 4, 0},
                           {"p5.48xlarge x4", "p5.48xlarge", 4, 0},
                           {"four p5.48xlarge", "p5.48xlarge", 4, 0},
                           {"4 p5.48xlarge instances", "p5.48xlarge", 4, 0},
                           {"four DGX A100 40 GB", "dgx-a100-40gb", 4, 0},
                           {"aws p4d", "p4d.24xlarge", 0, 0},
                           {"AWS p4d.24xlarge", "p4d.24xlarge", 0, 0},
                           {"aws:p4d", "p4d.24xlarge", 0, 0},
                           {"aws/p4d.24xlarge", "p4d.24xlarge", 0, 0},
                           {"8xH800", "hgx-h800", 1, 0},
                           {"dgx-2", "dgx-2", 0, 0},
                           {"DGX 2", "dgx-2", 0, 0},
                           {"72xGB200", "gb200-nvl72", 1, 0}};
  for (const auto& [words, machine, hosts, processes] : rows) {
    CAPTURE(words);
    const MachineWords meant = machines_meant(words);
    CAPTURE(meant.note);
    REQUIRE(!meant.machines.empty());
    const Machine found = load_machine(meant.machines.front());
    // Two machines may have the same GPUs in equal hosts. The words then mean either of them.
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
  CHECK(group("p5 x 4") == group("p5"));
  CHECK(machines_meant("p5 (4)").hosts == 4);
  CHECK(machines_meant("4 p5s").hosts == 4);
  CHECK(group("NVIDIA H100 80GB HBM3").size() > 1);
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

TEST_CASE("hardware without a profile is answered with a way to go on", "[hwprofiles][words]") {
  const auto answer = [](const char* words) { return message_of([&] { machines_meant(words); }); };
  const std::pair<const char*, const char*> rows[] = {
      {"8x abacus", "unknown machine 'abacus'"},
      {"HGX H100 x 2", "did you mean 'dgx-h100'?"},
      {"gcp a3-mega",
       "an instance of Google Cloud, which has no profile here; the nearest machine"},
      {"gcp", "machines of Google Cloud have no profile here; name the GPUs, such as 8xH100"},
      {"Azure ND A100 v4", "machines of Azure have no profile here; name the GPUs, such as 8xA100"},
      {"coreweave", "machines of coreweave have no profile here"},
      {"8xMI300X", "is a GPU of AMD; machines here have GPUs of NVIDIA. GPUs that are known: A100"},
      {"TPU v5p", "is a TPU"},
      {"trn1.32xlarge", "is an AWS Trainium"},
      {"RTX 4090", "no known machine has 'RTX 4090'; GPUs that are known: A100"},
      {"2x3090", "no known machine has '3090'"},
      {"4090", "no known machine has '4090'"},
      {"H100 PCIe x 8", "no known machine has 'H100 PCIe', but with SXM H100 has"},
      {"8", "does not say which GPU; write 8xH100"},
      {"8 GPUs", "does not say which GPU; write 8xH100"},
      {"0xH100", "counts 0; use a whole number from 1 to 999999, such as 8xH100"},
      {"-8xH100", "counts -8; use a whole number"},
      {"1.5xH100", "counts 1.5; use a whole number"},
      {"10000000xH100", "counts 10000000; use a whole number"},
      {"2 x 16 x H100", "no machine has 16 such GPUs; the largest has 8"},
      {"2 x 8 x p5.48xlarge", "has a number of GPUs of its own; write 2 x p5.48xlarge"},
      {"8xH100+8xA100", "a job runs on one kind of machine; a list chooses between several"},
      {"localhost", "this computer is called 'local'"},
      {"cheapest", "'auto' tries all machines"}};
  for (const auto& [words, expected] : rows) {
    CAPTURE(words);
    CHECK(answer(words).find(expected) != std::string::npos);
  }
  CHECK(unknown_machine("NVL72").find("'gb200-nvl72' or 'gb300-nvl72'") != std::string::npos);
  CHECK(unknown_machine("DGX H100 SuperPOD").find("did you mean 'dgx-h100'?") != std::string::npos);
}
