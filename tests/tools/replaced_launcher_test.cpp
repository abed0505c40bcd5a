// Tests what `launch` makes of the command lines of other launchers.
#include "tools/commands/replaced_launcher.h"

#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

using Words = std::vector<std::string>;
using Ranks = std::optional<int>;

}  // namespace

TEST_CASE("launch takes the place of another launcher", "[tools][launch]") {
  struct Case {
    Words command, script;
    std::string name;
    Ranks ranks;
    std::string lost;
  };
  const std::vector<Case> cases = {
      {{"python", "train.py", "-m", "torchrun"},
       {"python", "train.py", "-m", "torchrun"},
       "",
       {},
       ""},
      {{"torchrun", "train.py", "--nnodes", "2"}, {"train.py", "--nnodes", "2"}, "torchrun", 1, ""},
      {{"/v/bin/torchrun", "--nproc_per_node=4", "--nnodes", "2", "--rdzv-endpoint", "h:1", "t.py"},
       {"/v/bin/python3", "t.py"},
       "torchrun",
       8,
       "--rdzv-endpoint h:1"},
      {{"python", "-u", "-m", "torch.distributed.run", "--nproc-per-node", "gpu", "-m",
        "pkg.train"},
       {"python", "-u", "-m", "pkg.train"},
       "torchrun",
       {},
       ""},
      {{"torchrun", "--nnodes=1:4", "--module", "pkg.train", "-x"},
       {"-m", "pkg.train", "-x"},
       "torchrun",
       {},
       ""},
      {{"accelerate", "launch", "--num_processes", "2", "--multi_gpu", "t.py"},
       {"t.py"},
       "accelerate",
       2,
       "--multi_gpu"},
      {{"deepspeed", "--num_gpus=8", "--num_nodes=2", "t.py", "--deepspeed"},
       {"t.py", "--deepspeed"},
       "deepspeed",
       16,
       ""},
      {{"deepspeed", "t.py"}, {"t.py"}, "deepspeed", {}, ""},
      {{"mpirun", "-np", "4", "-x", "PYTHONPATH=/python", "--mca", "btl", "self", "python3",
        "t.py"},
       {"python3", "t.py"},
       "mpirun",
       4,
       "-x PYTHONPATH=/python, --mca btl self"},
      {{"horovodrun", "-np", "4", "-H", "a:4", "python", "t.py"},
       {"python", "t.py"},
       "horovodrun",
       4,
       "-H a:4"},
      {{"srun", "--ntasks=4", "python", "t.py"}, {"python", "t.py"}, "srun", 4, ""},
      {{"torchrun"}, {}, "torchrun", 1, ""},
      {{}, {}, "", {}, ""}};
  for (const Case& each : cases) {
    const ReplacedLauncher found = replace_launcher(each.command);
    CHECK(found.command == each.script);
    CHECK(found.name == each.name);
    CHECK(found.ranks == each.ranks);
    CHECK(found.lost == each.lost);
  }
}
