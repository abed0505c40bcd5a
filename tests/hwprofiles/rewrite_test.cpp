#include "hwprofiles/rewrite.h"

#include <fstream>

#include "hwprofiles/load.h"
#include "tests/catch.h"

using namespace meshwright;

TEST_CASE("fitted constants go into a profile's text, and nothing else changes", "[hwprofiles]") {
  for (const std::string& name : list_machines()) {
    INFO(name);
    std::ifstream file(profiles_folder() + "/" + name + ".json");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    Machine machine = machine_of_text(text, name);
    // What is there already is written as it was read.
    const auto efficiency =
        std::find_if(machine.sources.begin(), machine.sources.end(),
                     [](const auto& each) { return each.first == "efficiency"; });
    CHECK(with_fitted_constants(text, machine, efficiency->second) == text);
    machine.gpu.gemm.points = {{1, 0.5}};
    machine.gpu.kernels.traffic = {3, 2, 1};
    machine.host_latency.latency_s = 1.25e-5;
    machine.residuals = Residuals{Residuals::Interval{0.9, 1.2, 17}, std::nullopt};
    const Machine changed =
        machine_of_text(with_fitted_constants(text, machine, "somewhere"), name);
    CHECK(changed.gpu.gemm.at(1) == 0.5);
    CHECK(changed.gpu.kernels == machine.gpu.kernels);
    CHECK(changed.host_latency.latency_s == 1.25e-5);
    CHECK(changed.residuals->one_host->rows == 17);
    CHECK_FALSE(changed.residuals->many_hosts);
    CHECK(changed.prices.has_value() == machine.prices.has_value());
  }
}
