#include "exec/backends/cuda/attention/cudnn_attention.h"

#include <cudnn_frontend.h>
#include <dlfcn.h>
#include <fmt/format.h>

#include <array>
#include <memory>
#include <unordered_map>

#include "exec/backends/cuda/device/check.h"
#include "models/core/error.h"
#include "models/program/graph/gpu_scratch.h"

namespace cudnn_frontend {
void* cudnn_dlhandle = nullptr;  // make_cudnn_attention() sets it
}

namespace meshwright::exec::cuda {

namespace {

namespace fe = cudnn_frontend;
using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

void check(fe::error_t result, const char* what) {
  if (result.is_bad()) throw RunError(fmt::format("cuDNN, {}: {}", what, result.get_message()));
}

// The layout of queries, keys or values: the number of the operand that has them, the offset of
// their first element in it, the elements from one token to the next and from one head to the next,
// and the number of heads.
struct Place {
  std::size_t operand;
  std::int64_t first, token, head, heads;
};

// Returns the layouts of the queries, the keys and the values.
std::array<Place, 3> places_of(const Attributes& a) {
  const std::int64_t dim = a.head_dim, heads = a.heads, kv_heads = a.kv_heads;
  switch (a.packing) {
    case Packing::concatenated: {
      const std::int64_t token = (heads + 2 * kv_heads) * dim;
      return {{{0, 0, token, dim, heads},
               {0, heads * dim, token, dim, kv_heads},
               {0, (heads + kv_heads) * dim, token, dim, kv_heads}}};
    }
    case Packing::per_head: {
      const std::int64_t token = 3 * heads * dim;
      return {{{0, 0, token, 3 * dim, heads},
               {0, dim, token, 3 * dim, heads},
               {0, 2 * dim, token, 3 * dim, heads}}};
    }
    case Packing::separate:
      break;
  }
  return {{{0, 0, heads * dim, dim, heads},
           {1, 0, kv_heads * dim, dim, kv_heads},
           {2, 0, kv_heads * dim, dim, kv_heads}}};
}

// The numbers by which the tensors of a graph are identified.
enum Name : std::int64_t {
  query = 1,
  key,
  value,
  result,
  log_sums,
  d_result,
  d_query,
  d_key,
  d_value
};

constexpr std::int64_t alignment = 256;  // of cuDNN's scratch memory, in bytes

bool is_backward(const OpCall& call) { return call.op == Op::attention_grad; }

struct Plan {
  fe::graph::Graph graph;
  std::int64_t workspace_bytes = 0;
};

class CudnnAttention : public AttentionLibrary {
 public:
  CudnnAttention() {
    if (fe::detail::create_handle(&handle_) != CUDNN_STATUS_SUCCESS)
      throw RunError("cudnnCreate failed");
  }
  ~CudnnAttention() override { fe::detail::destroy_handle(handle_); }
  CudnnAttention(const CudnnAttention&) = delete;
  CudnnAttention& operator=(const CudnnAttention&) = delete;

  std::string version() const override {
    const std::size_t number = fe::detail::get_backend_version();
    return fmt::format("cuDNN {}.{}.{}", number / 10000, number / 100 % 100, number % 100);
  }

  std::optional<std::int64_t> workspace_bytes(const OpCall& call) override {
    const Plan* plan = plan_of(call);
    return plan == nullptr ? std::nullopt : std::optional(plan->workspace_bytes + alignment);
  }

  void run(const KernelCall& k) override {
    Plan* const plan = plan_of(k.call);
    MESHWRIGHT_CHECK(plan != nullptr, "cuDNN was asked for an attention that it has not");
    const std::int64_t word = bytes_of(k.call.inputs[0].dtype);
    const std::array<Place, 3> places = places_of(k.attributes());
    const std::size_t tensors = k.attributes().packing == Packing::separate ? 3 : 1;
    std::unordered_map<std::int64_t, void*> addresses;
    const auto give = [&](std::int64_t name, const void* address) {
      addresses[name] = const_cast<void*>(address);  // cuDNN takes inputs as non-const too
    };
    for (std::size_t i = 0; i < 3; ++i) {
      const Place& place = places[i];
      give(query + static_cast<std::int64_t>(i),
           k.in<std::byte>(place.operand) + place.first * word);
      if (is_backward(k.call))
        give(d_query + static_cast<std::int64_t>(i),
             k.out<std::byte>(place.operand) + place.first * word);
    }
    if (is_backward(k.call)) {
      give(result, k.in<void>(tensors));
      give(log_sums, k.in<void>(tensors + 1));
      give(d_result, k.in<void>(tensors + 2));
    } else {
      give(result, k.out<void>(0));
      give(log_sums, k.out<void>(1));
    }
    if (fe::detail::set_stream(handle_, k.stream) != CUDNN_STATUS_SUCCESS)
      throw RunError("cudnnSetStream failed");
    void* workspace = k.context.workspace;
    auto room = static_cast<std::size_t>(plan->workspace_bytes + alignment);
    std::align(alignment, plan->workspace_bytes, workspace, room);
    check(plan->graph.execute(handle_, addresses, workspace), "attention");
  }

 private:
  // Returns the plan for the call, which is made once for each shape, or null if cuDNN has none or
  // the call is not one that it may compute.
  Plan* plan_of(const OpCall& call) {
    if (!may_be_cudnns(call)) return nullptr;
    const auto [found, is_new] = plans_.try_emplace(text_of_attention(call));
    if (is_new) found->second = planned(call);
    return found->second.get();
  }

  std::unique_ptr<Plan> planned(const OpCall& call) const {
    const Attributes& a = call.attributes;
    auto plan = std::make_unique<Plan>();
    fe::graph::Graph& graph = plan->graph;
    const bool half = call.inputs[0].dtype == Dtype::f16;
    graph.set_io_data_type(half ? fe::DataType_t::HALF : fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    const std::int64_t batch = a.micro_batch, length = a.sequence_length, dim = a.head_dim;
    const auto lie = [&](const Tensor& tensor, std::int64_t name, const Place& place) {
      tensor->set_uid(name)
          .set_dim({batch, place.heads, length, dim})
          .set_stride({length * place.token, place.head, place.token, 1});
    };
    const auto input = [&](std::int64_t name, const Place& place) {
      const Tensor tensor = graph.tensor(fe::graph::Tensor_attributes());
      lie(tensor, name, place);
      return tensor;
    };
    const auto of_row = [&](const Tensor& tensor) {  // one number for each query
      tensor->set_uid(log_sums)
          .set_dim({batch, a.heads, length, 1})
          .set_stride({a.heads * length, length, 1, 1})
          .set_data_type(fe::DataType_t::FLOAT);
    };
    const std::array<Place, 3> places = places_of(a);
    const Place rows{0, 0, a.heads * dim, dim, a.heads};
    const Tensor q = input(query, places[0]), k = input(key, places[1]),
                 v = input(value, places[2]);
    const auto scale = static_cast<float>(score_scale(a));
    if (is_backward(call)) {
      const Tensor y = input(result, rows), dy = input(d_result, rows);
      const Tensor sums = graph.tensor(fe::graph::Tensor_attributes());
      of_row(sums);
      auto settings = fe::graph::SDPA_backward_attributes().set_name("attention_grad");
      settings.set_attn_scale(scale).set_causal_mask(a.causal);
      const auto gradients = graph.sdpa_backward(q, k, v, y, dy, sums, settings);
      for (std::size_t i = 0; i < 3; ++i) {
        gradients[i]->set_output(true);
        lie(gradients[i], d_query + static_cast<std::int64_t>(i), places[i]);
      }
    } else {
      auto settings = fe::graph::SDPA_attributes().set_name("attention");
      settings.set_generate_stats(true).set_attn_scale(scale).set_causal_mask(a.causal);
      const auto [y, sums] = graph.sdpa(q, k, v, settings);
      y->set_output(true);
      lie(y, result, rows);
      sums->set_output(true);
      of_row(sums);
    }
    if (graph.build(handle_, {fe::HeurMode_t::A}).is_bad() ||
        graph.get_workspace_size(plan->workspace_bytes).is_bad())
      return nullptr;
    return plan;
  }

  cudnnHandle_t handle_ = nullptr;
  std::map<std::string, std::unique_ptr<Plan>> plans_;  // null: cuDNN has no kernel
};

}  // namespace

std::unique_ptr<AttentionLibrary> make_cudnn_attention() {
  if (fe::cudnn_dlhandle == nullptr) fe::cudnn_dlhandle = dlopen("libcudnn.so.9", RTLD_NOW);
  if (fe::cudnn_dlhandle == nullptr) return nullptr;
  try {
    return std::make_unique<CudnnAttention>();
  } catch (const std::exception&) {  // such as a cuDNN for another CUDA
    return nullptr;
  }
}

}  // namespace meshwright::exec::cuda
