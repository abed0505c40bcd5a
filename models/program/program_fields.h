// Gives the names of the parts of a Program in JSON. Each struct has a list of the fields that are
// in the file, which the writer and the reader both go through.
#pragma once

#include <string_view>
#include <tuple>

#include "models/program/graph/fusion.h"
#include "models/program/graph/segment.h"
#include "models/program/program.h"

namespace meshwright::program {

template <class Struct, class Value>
struct Field {
  std::string_view name;
  Value Struct::*member;
  bool always = false;  // written even if it has its default
};
template <class Struct, class Value>
Field(std::string_view, Value Struct::*) -> Field<Struct, Value>;
template <class Struct, class Value>
Field(std::string_view, Value Struct::*, bool) -> Field<Struct, Value>;
constexpr bool always = true;

template <class Struct>
struct FieldsOf;

template <>
struct FieldsOf<LossScale> {
  static constexpr auto list =
      std::tuple(Field{"dynamic", &LossScale::dynamic}, Field{"initial", &LossScale::initial},
                 Field{"factor", &LossScale::factor}, Field{"minimum", &LossScale::minimum},
                 Field{"window", &LossScale::window}, Field{"hysteresis", &LossScale::hysteresis});
};

template <>
struct FieldsOf<Adafactor> {
  using A = Adafactor;
  static constexpr auto list = std::tuple(
      Field{"eps1", &A::eps1}, Field{"eps2", &A::eps2}, Field{"clip_threshold", &A::clip_threshold},
      Field{"decay_rate", &A::decay_rate}, Field{"scale_parameter", &A::scale_parameter},
      Field{"relative_step", &A::relative_step});
};

template <>
struct FieldsOf<StepSettings> {
  using S = StepSettings;
  static constexpr auto list = std::tuple(
      Field{"global_batch", &S::global_batch}, Field{"micro_batch", &S::micro_batch},
      Field{"sequence_length", &S::sequence_length}, Field{"precision", &S::precision},
      Field{"gradient_reduce", &S::gradient_reduce}, Field{"attention", &S::attention},
      Field{"compiler", &S::compiler},
      Field{"fuse_gradient_accumulation", &S::fuse_gradient_accumulation},
      Field{"cross_entropy_fusion", &S::cross_entropy_fusion},
      Field{"deterministic", &S::deterministic}, Field{"steps", &S::steps}, Field{"seed", &S::seed},
      Field{"optimizer", &S::optimizer}, Field{"master_weights", &S::master_weights},
      Field{"moments", &S::moments}, Field{"moments_at_random", &S::moments_at_random},
      Field{"learning_rate", &S::learning_rate}, Field{"warmup_steps", &S::warmup_steps},
      Field{"learning_rate_schedule", &S::learning_rate_schedule},
      Field{"decay_steps", &S::decay_steps}, Field{"weight_decay", &S::weight_decay},
      Field{"momentum", &S::momentum}, Field{"beta1", &S::beta1}, Field{"beta2", &S::beta2},
      Field{"epsilon", &S::epsilon}, Field{"gradient_clip", &S::gradient_clip},
      Field{"gradient_clip_value", &S::gradient_clip_value}, Field{"ema_decay", &S::ema_decay},
      Field{"loss_scale", &S::loss_scale}, Field{"cuda_graph", &S::cuda_graph},
      Field{"router_bias_update_rate", &S::router_bias_update_rate},
      Field{"adafactor", &S::adafactor});
};

template <>
struct FieldsOf<Degrees> {
  using D = Degrees;
  static constexpr auto list =
      std::tuple(Field{"pipeline", &D::pipeline}, Field{"tensor", &D::tensor},
                 Field{"data", &D::data}, Field{"context", &D::context}, Field{"shard", &D::shard},
                 Field{"expert", &D::expert}, Field{"context_heads", &D::context_heads},
                 Field{"experts_over_tensor", &D::experts_over_tensor});
};

template <>
struct FieldsOf<JobSettings> {
  using S = JobSettings;
  static constexpr auto list =
      std::tuple(Field{"training", &S::training}, Field{"degrees", &S::degrees},
                 Field{"placement", &S::placement}, Field{"zero_stage", &S::zero_stage});
};

template <>
struct FieldsOf<StageLayout> {
  using L = StageLayout;
  static constexpr auto list = std::tuple(Field{"stages", &L::stages}, Field{"chunks", &L::chunks},
                                          Field{"shape", &L::shape});
};

template <>
struct FieldsOf<Owner> {
  static constexpr auto list =
      std::tuple(Field{"rdp", &Owner::rdp}, Field{"tensor", &Owner::tensor});
};

template <>
struct FieldsOf<Cut> {
  static constexpr auto list =
      std::tuple(Field{"dim", &Cut::dim}, Field{"segments", &Cut::segments});
};

template <>
struct FieldsOf<Parameter> {
  using P = Parameter;
  static constexpr auto list = std::tuple(
      Field{"name", &P::name}, Field{"global_shape", &P::global_shape},
      Field{"padded_shape", &P::padded_shape}, Field{"shape", &P::shape}, Field{"dtype", &P::dtype},
      Field{"cut", &P::cut}, Field{"is_cut", &P::is_cut}, Field{"of_experts", &P::of_experts},
      Field{"is_cut_by_experts", &P::is_cut_by_experts}, Field{"initial", &P::initial},
      Field{"decay", &P::decay}, Field{"partial_over_tensor", &P::partial_over_tensor},
      Field{"trainable", &P::trainable}, Field{"counted", &P::counted}, Field{"tensor", &P::tensor},
      Field{"gradient", &P::gradient});
};

template <>
struct FieldsOf<StageParameter> {
  using P = StageParameter;
  static constexpr auto list = std::tuple(
      Field{"parameter", &P::parameter}, Field{"chunk", &P::chunk}, Field{"bucket", &P::bucket},
      Field{"offset", &P::offset}, Field{"copy_of_tied", &P::copy_of_tied},
      Field{"first_count", &P::first_count}, Field{"first_factor", &P::first_factor});
};

template <>
struct FieldsOf<Operand> {
  using O = Operand;
  static constexpr auto list = std::tuple(Field{"buffer", &O::buffer}, Field{"offset", &O::offset},
                                          Field{"type", &O::type}, Field{"part_of", &O::part_of});
};

template <>
struct FieldsOf<StatePiece> {
  using P = StatePiece;
  static constexpr auto list =
      std::tuple(Field{"begin", &P::begin}, Field{"count", &P::count}, Field{"master", &P::master},
                 Field{"first_moment", &P::first_moment}, Field{"second_moment", &P::second_moment},
                 Field{"average", &P::average});
};

template <>
struct FieldsOf<Bucket> {
  using B = Bucket;
  static constexpr auto list = std::tuple(
      Field{"elements", &B::elements}, Field{"shard_elements", &B::shard_elements},
      Field{"parameters", &B::parameters}, Field{"weights", &B::weights},
      Field{"gradients", &B::gradients}, Field{"own_weights", &B::own_weights},
      Field{"own_gradients", &B::own_gradients}, Field{"master", &B::master},
      Field{"first_moment", &B::first_moment}, Field{"second_moment", &B::second_moment},
      Field{"average", &B::average}, Field{"sharded", &B::sharded},
      Field{"of_experts", &B::of_experts}, Field{"matrices", &B::matrices},
      Field{"update", &B::update}, Field{"updates", &B::updates}, Field{"pieces", &B::pieces},
      Field{"factored", &B::factored}, Field{"frozen", &B::frozen}, Field{"snapshot", &B::snapshot},
      Field{"owner", &B::owner});
};

template <>
struct FieldsOf<Attributes> {
  using A = Attributes;
  static constexpr auto list = std::tuple(
      Field{"micro_batch", &A::micro_batch}, Field{"sequence_length", &A::sequence_length},
      Field{"heads", &A::heads}, Field{"kv_heads", &A::kv_heads}, Field{"head_dim", &A::head_dim},
      Field{"rotary_dim", &A::rotary_dim}, Field{"position_offset", &A::position_offset},
      Field{"tensor_degree", &A::tensor_degree}, Field{"context_degree", &A::context_degree},
      Field{"ring_step", &A::ring_step}, Field{"head_parts", &A::head_parts},
      Field{"context_of_pytorch", &A::context_of_pytorch}, Field{"rotary_base", &A::rotary_base},
      Field{"rotary_factor", &A::rotary_factor}, Field{"rotary_low", &A::rotary_low},
      Field{"rotary_high", &A::rotary_high}, Field{"rotary_original", &A::rotary_original},
      Field{"rotary_yarn", &A::rotary_yarn}, Field{"rotary_truncate", &A::rotary_truncate},
      Field{"temperature", &A::temperature}, Field{"temperature_floor", &A::temperature_floor},
      Field{"scale", &A::scale}, Field{"factor", &A::factor}, Field{"storage", &A::storage},
      Field{"epsilon", &A::epsilon}, Field{"dropout", &A::dropout},
      Field{"drops_in_fp32", &A::drops_in_fp32}, Field{"dropout_key", &A::dropout_key},
      Field{"vocabulary", &A::vocabulary}, Field{"packing", &A::packing},
      Field{"attention", &A::attention}, Field{"causal", &A::causal}, Field{"alibi", &A::alibi},
      Field{"alibi_heads", &A::alibi_heads}, Field{"relative_buckets", &A::relative_buckets},
      Field{"relative_distance", &A::relative_distance}, Field{"scaled_scores", &A::scaled_scores},
      Field{"loss_by_operations", &A::loss_by_operations}, Field{"score_width", &A::score_width},
      Field{"score_cap", &A::score_cap}, Field{"score_factor", &A::score_factor},
      Field{"value_dim", &A::value_dim}, Field{"sinks", &A::sinks},
      Field{"swiglu_limit", &A::swiglu_limit}, Field{"window", &A::window},
      Field{"chunk", &A::chunk}, Field{"documents", &A::documents},
      Field{"document_share", &A::document_share}, Field{"weight_in_out", &A::weight_in_out},
      Field{"gelu_tanh", &A::gelu_tanh}, Field{"rotary_interleaved", &A::rotary_interleaved},
      Field{"vocabulary_parallel", &A::vocabulary_parallel},
      Field{"sequence_parallel", &A::sequence_parallel}, Field{"hidden_share", &A::hidden_share},
      Field{"rms_norm", &A::rms_norm}, Field{"one_plus_weight", &A::one_plus_weight},
      Field{"experts", &A::experts}, Field{"experts_per_token", &A::experts_per_token},
      Field{"weights_of_all", &A::weights_of_all}, Field{"expert_capacity", &A::expert_capacity},
      Field{"sigmoid_scores", &A::sigmoid_scores}, Field{"expert_groups", &A::expert_groups},
      Field{"groups_per_token", &A::groups_per_token}, Field{"groups_by_two", &A::groups_by_two},
      Field{"expert_weight_scale", &A::expert_weight_scale}, Field{"expert_rows", &A::expert_rows},
      Field{"expert_parts", &A::expert_parts}, Field{"expert_rank_factor", &A::expert_rank_factor},
      Field{"expert_imbalance", &A::expert_imbalance},
      Field{"overflow_is_error", &A::overflow_is_error}, Field{"balance", &A::balance},
      Field{"sends_once", &A::sends_once}, Field{"segments", &A::segments},
      Field{"patch_size", &A::patch_size}, Field{"channels", &A::channels}, Field{"made", &A::made},
      Field{"scale_rows", &A::scale_rows}, Field{"scale_columns", &A::scale_columns},
      Field{"scales_of_before", &A::scales_of_before},
      Field{"scales_are_powers", &A::scales_are_powers}, Field{"rounding_key", &A::rounding_key},
      Field{"hadamard_key", &A::hadamard_key}, Field{"with_transposed", &A::with_transposed},
      Field{"matrices", &A::matrices}, Field{"joins_maker", &A::joins_maker},
      Field{"factors_transposed", &A::factors_transposed},
      Field{"gradient_is_whole", &A::gradient_is_whole},
      Field{"accumulate_separately", &A::accumulate_separately}, Field{"adds", &A::adds},
      Field{"fusion", &A::fusion}, Field{"segment", &A::segment});
};

template <>
struct FieldsOf<FusedStep> {
  using S = FusedStep;
  static constexpr auto list =
      std::tuple(Field{"op", &S::op, always}, Field{"attributes", &S::attributes},
                 Field{"inputs", &S::inputs}, Field{"outputs", &S::outputs});
};

template <>
struct FieldsOf<Fusion> {
  using F = Fusion;
  static constexpr auto list = std::tuple(
      Field{"operands", &F::operands}, Field{"cut", &F::cut}, Field{"inputs", &F::inputs},
      Field{"outputs", &F::outputs}, Field{"accumulated", &F::accumulated},
      Field{"steps", &F::steps}, Field{"rows", &F::rows}, Field{"block_rows", &F::block_rows},
      Field{"loop", &F::loop}, Field{"start", &F::start});
};

template <>
struct FieldsOf<Kernel> {
  using K = Kernel;
  static constexpr auto list =
      std::tuple(Field{"kind", &K::kind}, Field{"m", &K::m}, Field{"n", &K::n}, Field{"k", &K::k},
                 Field{"batch", &K::batch}, Field{"flops", &K::flops}, Field{"bytes", &K::bytes},
                 Field{"gelus", &K::gelus}, Field{"joins_neighbour", &K::joins_neighbour},
                 Field{"backward", &K::backward}, Field{"quantized", &K::quantized},
                 Field{"precision", &K::precision});
};

template <>
struct FieldsOf<Segment> {
  using S = Segment;
  static constexpr auto list = std::tuple(
      Field{"name", &S::name}, Field{"number", &S::number}, Field{"parameters", &S::parameters},
      Field{"makes", &S::makes}, Field{"saves", &S::saves}, Field{"outputs", &S::outputs},
      Field{"gradients", &S::gradients}, Field{"kept", &S::kept},
      Field{"differentiated", &S::differentiated}, Field{"differentiable", &S::differentiable},
      Field{"forward", &S::forward}, Field{"backward", &S::backward},
      Field{"forward_flops", &S::forward_flops}, Field{"backward_flops", &S::backward_flops});
};

template <>
struct FieldsOf<Wait> {
  static constexpr auto list =
      std::tuple(Field{"relation", &Wait::relation}, Field{"body", &Wait::body},
                 Field{"instruction", &Wait::instruction, always});
};

template <>
struct FieldsOf<Instruction> {
  using I = Instruction;
  static constexpr auto list = std::tuple(
      Field{"kind", &I::kind}, Field{"stream", &I::stream}, Field{"when", &I::when},
      Field{"op", &I::op}, Field{"group", &I::group}, Field{"maximum", &I::maximum},
      Field{"accumulate", &I::accumulate}, Field{"overwrites", &I::overwrites},
      Field{"flat", &I::flat}, Field{"root", &I::root}, Field{"peer", &I::peer},
      Field{"peer_chunk", &I::peer_chunk}, Field{"channel", &I::channel},
      Field{"bucket", &I::bucket}, Field{"piece", &I::piece}, Field{"module", &I::module},
      Field{"phase", &I::phase}, Field{"attributes", &I::attributes}, Field{"inputs", &I::inputs},
      Field{"outputs", &I::outputs}, Field{"waits", &I::waits});
};

template <>
struct FieldsOf<Body> {
  static constexpr auto list =
      std::tuple(Field{"kind", &Body::kind, always}, Field{"chunk", &Body::chunk},
                 Field{"instructions", &Body::instructions});
};

template <>
struct FieldsOf<Task> {
  using T = Task;
  static constexpr auto list =
      std::tuple(Field{"body", &T::body, always}, Field{"chunk", &T::chunk},
                 Field{"micro_batch_index", &T::micro_batch_index}, Field{"slot", &T::slot},
                 Field{"first", &T::first}, Field{"last", &T::last}, Field{"window", &T::window},
                 Field{"offloaded", &T::offloaded});
};

template <>
struct FieldsOf<Buffer> {
  using B = Buffer;
  static constexpr auto list =
      std::tuple(Field{"name", &B::name}, Field{"class", &B::cls}, Field{"region", &B::region},
                 Field{"bytes", &B::bytes}, Field{"offset", &B::offset}, Field{"chunk", &B::chunk},
                 Field{"owner", &B::owner}, Field{"body", &B::body}, Field{"first", &B::first},
                 Field{"last", &B::last});
};

template <>
struct FieldsOf<SlotRegion> {
  using R = SlotRegion;
  static constexpr auto list = std::tuple(Field{"offset", &R::offset}, Field{"stride", &R::stride},
                                          Field{"slots", &R::slots});
};

template <>
struct FieldsOf<MemoryPlan> {
  using M = MemoryPlan;
  static constexpr auto list = std::tuple(
      Field{"buffers", &M::buffers}, Field{"slots", &M::slots}, Field{"windows", &M::windows},
      Field{"host", &M::host}, Field{"persistent_bytes", &M::persistent_bytes},
      Field{"task_offset", &M::task_offset}, Field{"task_bytes", &M::task_bytes},
      Field{"owned_offset", &M::owned_offset}, Field{"owned_bytes", &M::owned_bytes},
      Field{"arena_bytes", &M::arena_bytes}, Field{"snapshot_bytes", &M::snapshot_bytes},
      Field{"state_bytes", &M::state_bytes}, Field{"host_bytes", &M::host_bytes},
      Field{"class_bytes", &M::class_bytes});
};

// Lists the fields of one stage. Settings and modules are not among them, because all stages share
// them and the file has them once.
template <>
struct FieldsOf<Program> {
  using P = Program;
  static constexpr auto list = std::tuple(
      Field{"stage", &P::stage}, Field{"layout", &P::layout},
      Field{"micro_batches", &P::micro_batches}, Field{"parameters", &P::parameters},
      Field{"buckets", &P::buckets}, Field{"bodies", &P::bodies}, Field{"tasks", &P::tasks},
      Field{"memory", &P::memory}, Field{"fullest", &P::fullest},
      Field{"loss_buffer", &P::loss_buffer}, Field{"mtp_loss_buffer", &P::mtp_loss_buffer},
      Field{"norm_buffer", &P::norm_buffer}, Field{"loss_scale_buffer", &P::loss_scale_buffer},
      Field{"loss_scale_state_buffer", &P::loss_scale_state_buffer},
      Field{"parameter_norms_buffer", &P::parameter_norms_buffer}, Field{"rounded", &P::rounded},
      Field{"largest_buffer", &P::largest_buffer}, Field{"history_buffer", &P::history_buffer},
      Field{"choice_counts_buffer", &P::choice_counts_buffer},
      Field{"counted_routers", &P::counted_routers}, Field{"factors_buffer", &P::factors_buffer},
      Field{"factor_sums_buffer", &P::factor_sums_buffer},
      Field{"targets_per_step", &P::targets_per_step});
};

template <class T>
concept HasFields = requires {
  FieldsOf<T>::list;
};

template <class T, class Visit>
void for_each_field(const Visit& visit) {
  std::apply([&](const auto&... field) { (visit(field), ...); }, FieldsOf<T>::list);
}

}  // namespace meshwright::program
