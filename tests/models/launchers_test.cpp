// Tests which launcher starts the ranks, and what is passed to mpirun.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/models/distributions.h"

using namespace meshwright::tests;

TEST_CASE("launchers and what 'enabled' means", "[models][distribution]") {
  json value = version_1({{"partitions", 2}});
  value["mpi"]["enabled"] = false;
  CHECK(refused(value).starts_with("job.json: /distribution/mpi/enabled: smdistributed"));
  value["smdistributed"]["modelparallel"]["enabled"] = 1;
  const Job off = read(value);  // 1 is not true: plain data parallelism
  CHECK(off.plan.parallelism.pipeline == 1);
  CHECK(warns(off, "enabled"));
  CHECK(warns(off, "parameters"));
  CHECK(settle(off, 16, lookup_for_tests("p4d.24xlarge")).parallelism.data == 16);
  CHECK(read({{"torch_distributed", {{"enabled", true}}}}).plan.parallelism.pipeline == 1);
  CHECK(read({{"pytorchddp", {{"enabled", true}}}}).warnings.empty());
}

TEST_CASE("keys of a launcher that is off are unused, and a warning says so",
          "[models][distribution]") {
  json value = version_2({{"hybrid_shard_degree", 8}});
  value["mpi"] = {{"enabled", false}, {"processes_per_host", 4}, {"custom_mpi_options", "-x A=1"}};
  const Job job = read(value);
  CHECK(job.cluster.processes_per_host == 0);
  CHECK(job.mpi_options.empty());
  CHECK(warns(job, "processes_per_host"));
  CHECK(warns(job, "custom_mpi_options"));
}

TEST_CASE("custom_mpi_options is split into known words", "[models][distribution]") {
  json value = version_1({{"partitions", 2}, {"ddp", true}});
  value["mpi"]["custom_mpi_options"] =
      "-x NCCL_ALGO=ring  --mca btl_tcp_if_include eth0 --NCCL_DEBUG WARN -verbose -x "
      "FI_PROVIDER=efa";
  const Job job = read(value);
  CHECK(job.mpi_options.size() == 10);
  CHECK(job.mpi_options[1] == "NCCL_ALGO=ring");
  CHECK(job.warnings.empty());
  CHECK(job.unlisted_mpi_options.empty());
  const auto with = [&](const char* options) {
    value["mpi"]["custom_mpi_options"] = options;
    return refused(value);
  };
  CHECK(with("-mca btl_vader_single_copy_mechanism none")
            .find("Open MPI aborts when it is repeated") != std::string::npos);
  CHECK(with("-x") != "");
  CHECK(with("-np 4") != "");
  CHECK(with("--verbos").ends_with("did you mean '--verbose'?"));
  CHECK(with("-x A=$(id)").find("shell") != std::string::npos);
  CHECK(with("-x NCCL_ALGO=a\x01").ends_with("holds a control character; write plain words"));
}

TEST_CASE("a job file may set a closed list of parameters and variables",
          "[models][distribution]") {
  const auto unlisted = [](const std::string& options) {
    json value = version_1({{"partitions", 2}, {"ddp", true}});
    value["mpi"]["custom_mpi_options"] = options;
    return read(value).unlisted_mpi_options;
  };
  using Words = std::vector<std::string>;
  // These options appear in published examples.
  for (const char* options :
       {"-verbose --mca orte_base_help_aggregate 0 -x SMDEBUG_LOG_LEVEL=ERROR",
        "--mca btl_tcp_if_exclude lo,docker0 -mca btl_vader_eager_limit 4096 --mca pml ob1",
        "-x NCCL_DEBUG=WARN -x NCCL_ALGO=Ring -x NCCL_BUFFSIZE=8388608 -x OMP_NUM_THREADS=4",
        "-x FI_EFA_USE_DEVICE_RDMA=1 -x FI_PROVIDER=efa -x RDMAV_FORK_SAFE=1",
        "-x SMP_DISABLE_D2D=1 -x SMP_NCCL_THROTTLE_LIMIT=1 --mca btl_base_verbose 30",
        "-x HOROVOD_HIERARCHICAL_ALLREDUCE=1 -x FI_LOG_LEVEL=warn",
        "-x LD_LIBRARY_PATH -x PATH"}) {  // passes on the user's values
    CAPTURE(options);
    CHECK(unlisted(options) == Words{});
  }
  // These options would run, load or write what they name, so they are not on the list.
  CHECK(unlisted("-x LD_PRELOAD=/tmp/x.so") == Words{"variable LD_PRELOAD"});
  CHECK(unlisted("--mca plm_rsh_agent /tmp/x -gmca mca_base_component_path /tmp/y") ==
        Words{"MCA parameter plm_rsh_agent", "MCA parameter mca_base_component_path"});
  for (const char* name : {"PATH", "LD_LIBRARY_PATH", "NCCL_NET_PLUGIN", "NCCL_DEBUG_FILE",
                           "NCCL_TUNER_PLUGIN", "NCCL_TOPO_DUMP_FILE", "FI_PROVIDER_PATH",
                           "OMP_TOOL_LIBRARIES", "CUDA_INJECTION64_PATH", "OMPI_MCA_plm_rsh_agent",
                           "RDMAV_DRIVERS", "BASH_ENV", "HOROVOD_TIMELINE", "HOROVOD_AUTOTUNE_LOG"})
    CHECK(unlisted(std::string("-x ") + name + "=y") == Words{std::string("variable ") + name});
  for (const char* name :
       {"plm", "orte_launch_agent", "mca_base_env_list", "mca_base_verbose", "mca_base_param_files",
        "coll_tuned_dynamic_rules_filename", "btl_openib_device_param_files",
        "btl_vader_backing_directory", "orte_fork_agent", "plm_rsh_args"})
    CHECK(unlisted(std::string("--mca ") + name + " y") ==
          Words{std::string("MCA parameter ") + name});
}

TEST_CASE("variables of EFA have an effect where there is EFA", "[models][distribution]") {
  json value = version_1({{"partitions", 2}, {"ddp", true}});
  value["mpi"]["custom_mpi_options"] = "-x FI_PROVIDER=efa -x SMP_DISABLE_D2D=1";
  const Job with_efa = read(value);
  REQUIRE(with_efa.warnings.size() == 1);
  CHECK(with_efa.warnings[0].ends_with(
      "SMP_DISABLE_D2D is for SageMaker's libraries, without effect here"));
  json without = job_of(value);
  without["instance_type"] = "p3.16xlarge";
  const Job job = read_job(without, "job.json", ".", lookup_for_tests);
  REQUIRE(job.warnings.size() == 2);
  CHECK(
      job.warnings[0].ends_with("FI_PROVIDER is for EFA networks, which p3.16xlarge does not "
                                "have"));
}

TEST_CASE("the training compiler's dictionary", "[models][distribution]") {
  json value = job_of({{"pytorchxla", {{"enabled", true}}}});
  value["compiler_config"] = {{"enabled", true}};
  CHECK(read_job(value, "job.json", ".", lookup_for_tests).plan.training.compiler ==
        CompilerLevel::full);
  value["compiler_config"] = {{"enabled", false}, {"debug", true}};
  CHECK(read_job(value, "job.json", ".", lookup_for_tests).plan.training.compiler ==
        CompilerLevel::fused);
  value["compiler_config"] = {{"enabled", true}, {"debug", true}};
  Job job = read_job(value, "job.json", ".", lookup_for_tests);
  CHECK(job.compiler_debug);
  REQUIRE(!job.warnings.empty());
  CHECK(job.warnings.back().find("/compiler_config/debug: ") != std::string::npos);
  json here = value;  // the rule about instances does not apply to this computer
  here["instance_type"] = "local";
  CHECK(read_job(here, "job.json", ".", lookup_for_tests).plan.training.compiler ==
        CompilerLevel::full);
  value["distribution"] = {{"torch_distributed", {{"enabled", true}}}};
  job = read_job(value, "job.json", ".", lookup_for_tests);
  CHECK(job.warnings.front().find("/distribution: ") != std::string::npos);
}

// An option of mpirun is passed on together with the words that it needs, or it is rejected because
// it says where processes run.
TEST_CASE("every option of mpirun that is known is handed on whole, or refused",
          "[models][distribution]") {
  struct Option {
    const char* name;
    const char* words;  // the words that the option needs
    bool handed_on;
  };
  const Option options[] = {{"-x", "LANG", true},
                            {"-mca", "btl self", true},
                            {"--mca", "btl self", true},
                            {"-gmca", "btl self", true},
                            {"--gmca", "btl self", true},
                            {"--NCCL_DEBUG", "WARN", true},
                            {"-verbose", "", true},
                            {"--verbose", "", true},
                            {"-v", "", true},
                            {"-q", "", true},
                            {"--quiet", "", true},
                            {"--display-map", "", true},
                            {"--tag-output", "", true},
                            {"-tag-output", "", true},
                            {"--timestamp-output", "", true},
                            {"--report-bindings", "", true},
                            {"--oversubscribe", "", true},
                            {"--allow-run-as-root", "", true},
                            {"-bind-to", "core", true},
                            {"--bind-to", "core", true},
                            {"-map-by", "node", false},
                            {"--map-by", "node", false},
                            {"-rank-by", "node", false},
                            {"--rank-by", "node", false},
                            {"-np", "4", false},
                            {"--np", "4", false},
                            {"-n", "4", false},
                            {"-c", "4", false},
                            {"-N", "4", false},
                            {"--npernode", "4", false},
                            {"-host", "a", false},
                            {"--host", "a", false},
                            {"-H", "a", false},
                            {"-hostfile", "a", false},
                            {"--hostfile", "a", false},
                            {"--machinefile", "a", false}};
  json value = version_1({{"partitions", 2}, {"ddp", true}});
  const auto with = [&](const std::string& text) -> json& {
    value["mpi"]["custom_mpi_options"] = text;
    return value;
  };
  for (const Option& option : options) {
    const std::string name = option.name, text = name + " " + option.words;
    INFO(text);
    if (!option.handed_on) {
      CHECK(refused(with(text))
                .ends_with("'" + name +
                           "' says how many processes run where, which follows from the cluster; "
                           "remove it"));
      continue;
    }
    // The words after an option belong to it, so that the next option is recognized.
    CHECK(refused(with(text + " -quie")).ends_with("did you mean '--quiet'?"));
    const Job job = read(with(text + " --quiet"));
    CHECK(job.mpi_options.back() == "--quiet");
    CHECK(job.warnings.empty());
    const std::ptrdiff_t words = std::count(text.begin(), text.end(), ' ') + 1;
    CHECK(std::ssize(job.mpi_options) == (*option.words == 0 ? 2 : words + 1));
    const std::string less = text.substr(0, text.rfind(' '));
    if (*option.words != 0)
      CHECK(refused(with(less))
                .find("'" + name + "' needs " + std::to_string(words - 1) + " more word") !=
            std::string::npos);
  }
}

TEST_CASE("variables are named by letters, digits and underscores", "[models][distribution]") {
  json value = version_1({{"partitions", 2}, {"ddp", true}});
  const auto refusal = [&](const std::string& word) {
    value["mpi"]["custom_mpi_options"] = "-x " + word;
    return refused(value);
  };
  for (const char* good : {"LANG", "LC_ALL=C", "_A9=", "NCCL_DEBUG=a=b", "a"}) {
    INFO(good);
    CHECK(refusal(good) == "");
  }
  for (const char* bad : {"=C", "9A=1", "0A", "A-B=1", "A.B", "A,B"}) {
    INFO(bad);
    CHECK(refusal(bad).ends_with(std::string("'-x ") + bad +
                                 "' names no variable; use -x NAME or -x NAME=VALUE"));
  }
  for (const char* sign : {"'", "\"", "`", "$", ";", "|", "&", "<", ">", "\\"}) {
    INFO(sign);
    CHECK(refusal(std::string("A=") + sign).ends_with("write plain words"));
  }
}
