// Tests that profiles of PyTorch are read and split into kinds of kernels, and predictions in the
// same way.
#include "sim/predict/kernel_parts.h"

#include <fstream>

#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/sim/parts.h"
#include "tests/sim/plans.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {

const std::string profiles = MESHWRIGHT_SOURCE_DIR "/tests/sim/profiles/";

constexpr SimTime microsecond = 1'000'000;

KernelParts parts_of_file(const std::string& name) {
  const auto trace = read_profiler_trace(profiles + name);
  REQUIRE(trace);
  return profiled_kernel_parts(*trace, name);
}

CommunicationTime communication(const KernelParts& parts, KernelKind kind) {
  for (const CommunicationTime& each : parts.communication)
    if (each.kind == kind) return each;
  return {kind, 0, 0};
}

std::string refusal_of_file(const std::string& name) {
  const std::string message = message_of([&] { read_profiler_trace(profiles + name); });
  REQUIRE(message.starts_with(profiles + name));
  return message.substr((profiles + name).size());
}

}  // namespace

TEST_CASE("a kernel's kind is told by its name", "[explain]") {
  struct Case {
    KernelKind kind;
    const char* name;
    const char* collective = "";
  };
  using enum KernelKind;
  const Case cases[] = {
      {products, "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn"},
      {products, "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1"},
      {products, "nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_TNT"},
      {products, "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_256x128>"},
      {products, "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>"},
      {products, "volta_sgemm_128x64_nn"},
      {products, "Cijk_Ailk_Bljk_BBS_BH_MT256x128x32_MI32x32x8x1"},
      {products, "triton_tem_fused_mm_4"},
      {attention, "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<64>>"},
      {attention, "fmha_cutlassF_bf16_aligned_64x64_rf_sm80(PyTorchMemEffAttention::Params)"},
      {attention, "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_3_64x128x128"},
      {normalization, "void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel<float>"},
      {normalization, "void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<float>"},
      {softmax, "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda_kernel_2d"},
      {softmax, "triton_red_fused__log_softmax_nll_loss_forward_1"},
      {elementwise,
       "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add"
       "<float>, {lambda(float)#1}>"},
      {elementwise, "triton_poi_fused_add_gelu_3"},
      {optimizer, "void at::native::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>"},
      {optimizer, "multi_tensor_lamb_stage1_LAMBStage1Functor"},
      {other, "void at::native::(anonymous namespace)::indexSelectLargeIndex<float, long>"},
      {other, "Memcpy DtoD (Device -> Device)"},
      {host_copies, "Memcpy DtoH (Device -> Pinned)"},
      {all_reduce, "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"},
      {all_gather, "ncclKernel_AllGather_RING_LL_Sum_int8_t(ncclWorkElem)"},
      {reduce_scatter, "ncclDevKernel_ReduceScatter_Sum_f32_RING_SIMPLE"},
      {broadcast, "ncclDevKernel_Broadcast_RING_LL"},
      {broadcast, "ncclDevKernel_Reduce_Sum_f32_RING_LL"},
      {messages, "ncclDevKernel_SendRecv"},
      {all_to_all, "ncclDevKernel_SendRecv", "all_to_allv"},
      {all_gather, "ncclDevKernel_Generic_4", "_allgather_base"},
      {other_communication, "ncclDevKernel_Generic_4"},
  };
  for (const Case& each : cases) {
    INFO(each.name);
    CHECK(name_of(kind_of_kernel(each.name, each.collective)) == name_of(each.kind));
  }
}

// The device has finished the kernels that were launched before step 3 at 1015, when the host is in
// that step. Step 4 ends on the host at 1400, after the last kernel. Sums are over both steps, so
// the test compares twice the mean of a step.
TEST_CASE("a profile's steps add up by kinds of kernels", "[explain]") {
  const KernelParts parts = parts_of_file("two_steps.json");
  CHECK(parts.steps == 2);
  CHECK(parts.first_step == 3);
  CHECK(parts.last_step == 4);
  CHECK(sum_of(parts.parts) == parts.parts.step_time);
  CHECK(2 * parts.parts.step_time == (1400 - 1015) * microsecond);
  const auto both = [&](const char* cause) { return 2 * part(parts.parts, cause) / microsecond; };
  CHECK(both("matrix products") == 40 + 80);
  CHECK(both("attention") == 20);
  CHECK(both("normalization") == 15);
  CHECK(both("softmax and loss") == 10);
  CHECK(both("elementwise kernels") == 5);
  CHECK(both("optimizer") == 20);
  CHECK(both("other kernels") == 30);
  CHECK(both("exposed all-reduce") == (1085 - 1080) + (1130 - 1090));
  CHECK(both("exposed host copies") == 1270 - 1260);
  CHECK(both("exposed all-to-all") == 30);
  CHECK(both("exposed messages between ranks") == 0);
  CHECK(both("launch gaps") ==
        (1020 - 1015) + (1235 - 1230) + (1300 - 1270) + (1340 - 1330) + (1400 - 1370));
  CHECK(2 * communication(parts, KernelKind::all_reduce).time == 60 * microsecond);
  CHECK(2 * communication(parts, KernelKind::all_reduce).exposed == 45 * microsecond);
  CHECK(2 * communication(parts, KernelKind::host_copies).time == 15 * microsecond);
  REQUIRE(parts.kernels.size() == 10);
  CHECK(parts.kernels.front().runs == 1);  // two products in two steps; other two are outside
  CHECK(2 * parts.kernels.front().time == 120 * microsecond);
  const auto trace = read_profiler_trace(profiles + "two_steps.json");
  CHECK(trace->rank == 1);
  CHECK(trace->world_size == 8);
}

TEST_CASE("a profile without steps is one step", "[explain]") {
  const KernelParts parts = parts_of_file("no_steps.json");
  CHECK(parts.steps == 1);
  CHECK(parts.parts.step_time == 90 * microsecond);
  CHECK(part(parts.parts, "matrix products") == 30 * microsecond);
  CHECK(part(parts.parts, "normalization") == 20 * microsecond);
  CHECK(part(parts.parts, "exposed reduce-scatter") == 30 * microsecond);  // 40 to 70
  CHECK(part(parts.parts, "launch gaps") == 10 * microsecond);
  CHECK_FALSE(read_profiler_trace(profiles + "no_steps.json")->rank);
}

TEST_CASE("what is no profile of a GPU is refused, and why", "[explain]") {
  CHECK(refusal_of_file("missing.json") == ": no such trace");
  CHECK(refusal_of_file("cpu_only.json") ==
        ": holds no kernel of a GPU, so there is nothing to compare; profile with "
        "ProfilerActivity.CUDA");
  CHECK(refusal_of_file("two_devices.json") ==
        ": holds kernels of 2 devices; give the trace of one rank, which has one");
  CHECK(refusal_of_file("text_for_time.json") ==
        ": /traceEvents/1: 'ncclDevKernel_ReduceScatter_Sum_f32_RING_LL(ncclDevKernelArg': has no "
        "number 'ts'");
  CHECK(refusal_of_file("cut_off.json") ==
        ": is cut off: its JSON does not end; export the trace again");
  CHECK(refusal_of_file("broken.json").starts_with(": is no JSON at byte "));
  CHECK(refusal_of_file("") == ": is a folder; give a trace of one rank in it");

  const TestFolder folder;
  const auto refusal = [&](const std::string& content) {
    const std::string path = folder.file("trace.json");
    std::ofstream(path, std::ios::binary) << content;
    return message_of([&] { read_profiler_trace(path); }).substr(path.size());
  };
  CHECK(refusal("") == ": is empty");
  CHECK(refusal("\x1f\x8b\x08").starts_with(": is compressed; unpack it first: gunzip "));
  const auto kernel = [](const std::string& times) {
    return R"({"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "ts": 0, "dur": 1},
                               {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, )" +
           times + "}]}";
  };
  CHECK(refusal(kernel(R"("ts": 1)")) == ": /traceEvents/1: 'k': has no number 'dur'");
  CHECK(refusal(kernel(R"("ts": 1, "dur": -1)")) == ": /traceEvents/1: 'k': its 'dur' is negative");
  CHECK(
      refusal(kernel(R"("ts": 1e300, "dur": 1)")) ==
      ": /traceEvents/1: 'k': lies or lasts more than eleven days beyond the trace's first event");
  CHECK(refusal(kernel(R"("ts": 1e999, "dur": 1)")) ==
        ": /traceEvents/1: holds a number that is too large");
  CHECK(refusal(R"({"distributedInfo": {"rank": -1}, "traceEvents": []})") ==
        ": /distributedInfo/rank: is no number of ranks");
}

TEST_CASE("a trace of other origin is left to others", "[explain]") {
  const TestFolder folder;
  const std::string path = folder.file("trace.json");
  for (const char* content : {"{}", "[]", "7", R"({"traceEvents": {"a": 1}})",
                              R"({"traceEvents": [{"ph": "X", "name": "a", "cat": "forward"}]})"}) {
    std::ofstream(path) << content;
    CHECK_FALSE(read_profiler_trace(path));
  }
}

TEST_CASE("steps in which the device did nothing are refused", "[explain]") {
  auto trace = read_profiler_trace(profiles + "two_steps.json");
  REQUIRE(trace);
  for (ProfiledStep& step : trace->steps)
    step.begin += microsecond * 10000, step.end += microsecond * 10000;
  CHECK(message_of([&] { profiled_kernel_parts(*trace, "a.json"); }) ==
        "a.json: no kernel of a GPU was launched in any of its 2 ProfilerSteps");
}

TEST_CASE("a predicted step adds up by kinds of kernels", "[explain]") {
  const int ranks = GENERATE(1, 8);
  const Cluster cluster = MachineCase{"p4d.24xlarge", 1, ranks}.cluster();
  for (const PlanCase& each : plans_for(ranks)) {
    INFO(each.name);
    const Compiled compiled = compiled_for(small_model(), each.plan, cluster);
    Timeline timeline;
    const Prediction prediction = predict(compiled, cluster, {.timeline = &timeline});
    const StepParts account = step_parts(compiled, cluster, prediction, timeline);
    const Mesh mesh = compiled.stages.front().settings->mesh();
    const Program& program = compiled.stages[account.stage];
    const KernelParts parts = predicted_kernel_parts(
        program, cluster, timeline, mesh.rank({account.stage, 0, 0}), prediction.step_time);
    CHECK(sum_of(parts.parts) == parts.parts.step_time);
    CHECK(parts.parts.step_time == prediction.step_time);
    CHECK(parts.parts.stage == account.stage);
    CHECK(part(parts.parts, "optimizer") == part(account, "optimizer"));
    // Recomputed kernels are counted with their kind.
    const SimTime kernels =
        part(parts.parts, "matrix products") + part(parts.parts, "attention") +
        part(parts.parts, "normalization") + part(parts.parts, "softmax and loss") +
        part(parts.parts, "elementwise kernels") + part(parts.parts, "other kernels");
    CHECK(kernels == part(account, "matrix products") + part(account, "attention") +
                         part(account, "other kernels") + part(account, "recomputation"));
    if (each.plan.parallelism.pipeline == 1) {
      CHECK(part(parts.parts, "exposed messages between ranks") == 0);
      // The account counts launches as launches even if communication covers them.
      const SimTime gaps =
          part(account, "kernel launches") + part(account, "bubble") + part(account, "idle");
      CHECK(part(parts.parts, "launch gaps") <= gaps);
      if (ranks == 1) CHECK(part(parts.parts, "launch gaps") == gaps);
    } else {
      CHECK(communication(parts, KernelKind::messages).time > 0);
    }
    for (const CommunicationTime& time : parts.communication) CHECK(time.exposed >= 0);
  }
}
