// Tests that each variable of a container's environment is read into its own field.
#include "models/core/error.h"
#include "tests/catch.h"
#include "tools/session/sagemaker.h"

using namespace meshwright::tests;

namespace {

SageMakerEnvironment container() {
  SageMakerEnvironment environment;
  environment.hosts = R"(["algo-1", "algo-2"])";
  environment.current_host = "algo-2";
  environment.gpus = "8";
  environment.interface = "eth0";
  environment.instance = "ml.p4d.24xlarge";
  environment.parameters = R"({"partitions": 2})";
  return environment;
}

}  // namespace

TEST_CASE("a container's environment is read variable by variable", "[tools][sagemaker]") {
  const SageMaker read = read_sagemaker(container());
  CHECK(read.hosts == std::vector<std::string>{"algo-1", "algo-2"});
  CHECK(read.current == "algo-2");
  CHECK(read.interface == "eth0");
  CHECK(read.instance == "ml.p4d.24xlarge");
  CHECK(read.gpus == 8);
  CHECK(read.model_parallel);
  CHECK_FALSE(read.is_first());
  SageMakerEnvironment first = container();
  first.current_host = "algo-1";
  first.parameters = "{}";
  CHECK(read_sagemaker(first).is_first());
  CHECK_FALSE(read_sagemaker(first).model_parallel);
  SageMakerEnvironment alone = container();
  alone.hosts = R"(["algo-1"])";
  alone.current_host = "";
  alone.gpus = "";
  CHECK(read_sagemaker(alone).current == "algo-1");
  CHECK(read_sagemaker(alone).gpus == 0);
  const SageMaker elsewhere = read_sagemaker({});
  CHECK(elsewhere.hosts.empty());
  CHECK(elsewhere.is_first());
}

TEST_CASE("what a container's environment says wrong is refused by the variable's name",
          "[tools][sagemaker]") {
  struct Wrong {
    std::string SageMakerEnvironment::*variable;
    std::string text, message;
  };
  const Wrong all[] = {
      {&SageMakerEnvironment::hosts, "[]", "SM_HOSTS: expected a list of names, found []"},
      {&SageMakerEnvironment::hosts, R"(["algo-2", 3])",
       R"(SM_HOSTS: expected a list of names, found ["algo-2", 3])"},
      {&SageMakerEnvironment::hosts, "3", "SM_HOSTS: expected a list of names, found 3"},
      {&SageMakerEnvironment::current_host, "algo-3",
       "SM_CURRENT_HOST: 'algo-3' is none of SM_HOSTS, algo-1 and algo-2"},
      {&SageMakerEnvironment::current_host, "",
       "SM_CURRENT_HOST: '' is none of SM_HOSTS, algo-1 and algo-2"},
      {&SageMakerEnvironment::gpus, "1000000",
       "SM_NUM_GPUS: expected a whole number, found '1000000'"},
      {&SageMakerEnvironment::gpus, "-1", "SM_NUM_GPUS: expected a whole number, found '-1'"},
      {&SageMakerEnvironment::gpus, "8x", "SM_NUM_GPUS: expected a whole number, found '8x'"},
      {&SageMakerEnvironment::parameters, "[1]",
       "SM_HP_MP_PARAMETERS: expected an object, found [1]"}};
  for (const Wrong& wrong : all) {
    CAPTURE(wrong.message);
    SageMakerEnvironment environment = container();
    environment.*wrong.variable = wrong.text;
    CHECK_THROWS_WITH(read_sagemaker(environment), wrong.message);
  }
  SageMakerEnvironment many = container();
  many.gpus = "999999";  // six digits are as many as there may be
  CHECK(read_sagemaker(many).gpus == 999999);
}

TEST_CASE("what a launch says replaces keys of the job one by one", "[tools][sagemaker]") {
  CHECK(launch_overrides({}).empty());
  SageMakerEnvironment environment;
  environment.parameters = R"({"microbatches": 8, "placement_strategy": "spread"})";
  environment.framework = R"({"sagemaker_mpi_enabled": true,
    "sagemaker_mpi_num_of_processes_per_host": 4, "sagemaker_mpi_custom_mpi_options": "-x A",
    "sagemaker_torch_distributed_enabled": false, "sagemaker_instance_type": "x"})";
  CHECK(launch_overrides(environment) ==
        std::vector<std::string>{
            "distribution.smdistributed.modelparallel.enabled=true",
            "distribution.smdistributed.modelparallel.parameters.microbatches=8",
            "distribution.smdistributed.modelparallel.parameters.placement_strategy=\"spread\"",
            "distribution.mpi.enabled=true", "distribution.mpi.processes_per_host=4",
            "distribution.mpi.custom_mpi_options=\"-x A\"",
            "distribution.torch_distributed.enabled=false"});
  environment.parameters = "{}";
  CHECK(launch_overrides(environment).size() == 4);
}
