// Tests the settings that say how context ranks exchange keys, values and heads, in the words of
// Megatron-LM and of the frameworks that are built on it.
#include "tests/catch.h"
#include "tests/interop/read_text.h"
#include "tests/message_of.h"

using namespace meshwright::tests;
using nlohmann::json;

namespace {

json imported(Framework framework, const std::string& file, const std::string& text) {
  return import_texts({{file, text}},
                      {"cluster.machine=p4d.24xlarge", "cluster.count=1", "model=llama-2-7b"},
                      framework)
      .job;
}

const std::string arguments =
    "--bf16 --micro-batch-size 1 --global-batch-size 16 --seq-length 4096 --lr 1e-4 "
    "--context-parallel-size 4 ";

}  // namespace

TEST_CASE("Megatron-LM's a2a exchanges heads, and comes back", "[interop]") {
  const auto exchange = [](const std::string& words) {
    return imported(Framework::megatron_lm, "run.sh", arguments + words)["parallelism"];
  };
  CHECK(exchange("--cp-comm-type p2p")["context_exchange"] == "p2p");
  CHECK(exchange("--cp-comm-type all_gather")["context_exchange"] == "all_gather");
  CHECK(exchange("--cp-comm-type a2a")["context_exchange"] == "all_to_all");
  CHECK(message_of([&] {
          exchange("--cp-comm-type a2a p2p");
        }).ends_with("'a2a and p2p' is not built; p2p, all_gather, a2a and a2a+p2p are"));
  const json job = imported(Framework::megatron_lm, "run.sh", arguments + "--cp-comm-type a2a");
  const std::string text = exported_text(job, Framework::megatron_lm, 1, "arguments.txt");
  CHECK(text.find("--cp-comm-type a2a") != std::string::npos);
}

TEST_CASE("Megatron-LM's a2a+p2p has two sizes, and comes back", "[interop]") {
  const auto levels = [](const std::string& words) {
    return imported(Framework::megatron_lm, "run.sh",
                    arguments + "--cp-comm-type a2a+p2p " + words);
  };
  const std::string sizes = "--hierarchical-context-parallel-sizes ";
  const json job = levels(sizes + "2 2");
  CHECK(job["parallelism"]["context_exchange"] == "a2a+p2p");
  CHECK(job["parallelism"]["context_heads"] == 2);
  const std::string text = exported_text(job, Framework::megatron_lm, 1, "arguments.txt");
  CHECK(text.find("--cp-comm-type a2a+p2p") != std::string::npos);
  CHECK(text.find(sizes + "2 2") != std::string::npos);
  // If one of the two sizes is 1, there is only one kind of exchange.
  CHECK(levels(sizes + "4 1")["parallelism"]["context_exchange"] == "all_to_all");
  CHECK(levels(sizes + "1 4")["parallelism"]["context_exchange"] == "p2p");
  for (const std::string& wrong : {std::string(), sizes + "4", sizes + "2 4", sizes + "-2 -2"}) {
    INFO(wrong);
    CHECK(message_of([&] { levels(wrong); }).find("needs two sizes") != std::string::npos);
  }
}

TEST_CASE("Megatron-Bridge's cp_comm_type is read like Megatron-LM's", "[interop]") {
  const json job = imported(Framework::megatron_bridge, "a.yaml",
                            "model:\n  seq_length: 4096\n  context_parallel_size: 4\n"
                            "  cp_comm_type: a2a\ntrain:\n  micro_batch_size: 1\n"
                            "  global_batch_size: 16\nmixed_precision: bf16_mixed\n");
  CHECK(job["parallelism"]["context_exchange"] == "all_to_all");
  const json both = imported(Framework::megatron_bridge, "a.yaml",
                             "model:\n  seq_length: 4096\n  context_parallel_size: 4\n"
                             "  cp_comm_type: a2a+p2p\n"
                             "  hierarchical_context_parallel_sizes: [2, 2]\n"
                             "train:\n  micro_batch_size: 1\n"
                             "  global_batch_size: 16\nmixed_precision: bf16_mixed\n");
  CHECK(both["parallelism"]["context_exchange"] == "a2a+p2p");
  CHECK(both["parallelism"]["context_heads"] == 2);
}

TEST_CASE("a plan is near what exchanges heads where these divide", "[interop]") {
  const auto near = [](int kv_heads, Framework framework) {
    Model model = load_model("llama-2-7b", ".");
    model.kv_heads = kv_heads;
    Plan plan;
    plan.training.global_batch = 16;
    plan.training.sequence_length = 4096;
    plan.parallelism.context = 4;
    plan.parallelism.data = 2;
    return nearest_plan(framework, plan, model).value().parallelism;
  };
  CHECK(near(32, Framework::deepspeed).context_exchange == ContextExchange::all_to_all);
  CHECK(near(32, Framework::deepspeed).context == 4);
  CHECK(near(2, Framework::deepspeed).context == 1);
  CHECK(near(2, Framework::deepspeed).data == 8);
}
