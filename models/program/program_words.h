// Lists the words that stand for enumerators in the JSON of a Program, in the order of the
// enumerators.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "models/core/enum_words.h"
#include "models/program/describe.h"
#include "models/program/graph/fusion.h"
#include "models/program/graph/op_table.h"
#include "models/program/program.h"
#include "models/program/timeline.h"

namespace meshwright::program {

using EnumWords = std::vector<std::string>;

// Returns the names, by name_of(), of the first `count` enumerators.
template <class Enum>
EnumWords named(int count) {
  EnumWords words;
  for (int i = 0; i < count; ++i) words.emplace_back(name_of(static_cast<Enum>(i)));
  return words;
}

template <class Enum>
EnumWords words_of();
template <>
inline EnumWords words_of<Dtype>() {
  return words_up_to<Dtype::int4_256>({"f64", "f32", "f16", "bf16", "e4m3", "e5m2", "i32", "i16",
                                       "e2m1", "block8", "block8u", "nf4", "nf4_double", "int4_32",
                                       "int4_64", "int4_128", "int4_256"});
}
template <>
inline EnumWords words_of<Precision>() {
  return named<Precision>(precision_count);
}
template <>
inline EnumWords words_of<AttentionKernel>() {
  return attention_names();
}
template <>
inline EnumWords words_of<CompilerLevel>() {
  return compiler_names();
}
template <>
inline EnumWords words_of<OptimizerKind>() {
  return optimizer_names();
}
template <>
inline EnumWords words_of<MasterWeights>() {
  return master_weights_names();
}
template <>
inline EnumWords words_of<LearningRateSchedule>() {
  return learning_rate_schedule_names();
}
template <>
inline EnumWords words_of<StageShape>() {
  return words_up_to<StageShape::vee>({"loop", "vee"});
}
template <>
inline EnumWords words_of<Initial>() {
  return words_up_to<Initial::kaiming_uniform>(
      {"normal", "residual_normal", "ones", "zeros", "kaiming_uniform"});
}
template <>
inline EnumWords words_of<GroupKind>() {
  return named<GroupKind>(group_kind_count);
}
template <>
inline EnumWords words_of<Packing>() {
  return words_up_to<Packing::per_head>({"separate", "concatenated", "per_head"});
}
template <>
inline EnumWords words_of<Fusion::Loop>() {
  return words_up_to<Fusion::Loop::products>(
      {"blocks", "long_blocks", "product_first", "products"});
}
template <>
inline EnumWords words_of<Kernel::Kind>() {
  return words_up_to<Kernel::Kind::memory>({"gemm", "batched_gemm", "attention", "memory"});
}
template <>
inline EnumWords words_of<Wait::Relation>() {
  return words_up_to<Wait::Relation::previous_task>(
      {"same_task", "latest_with_slot", "latest_with_window", "latest", "previous_task"});
}
template <>
inline EnumWords words_of<InstructionKind>() {
  return named<InstructionKind>(static_cast<int>(InstructionKind::optimizer_step) + 1);
}
template <>
inline EnumWords words_of<Stream>() {
  return named<Stream>(stream_count);
}
template <>
inline EnumWords words_of<When>() {
  return words_up_to<When::offloaded>(
      {"always", "first_micro_batch", "last_micro_batch", "offloaded"});
}
template <>
inline EnumWords words_of<Phase>() {
  return words_up_to<Phase::backward>({"forward", "recompute", "backward"});
}
template <>
inline EnumWords words_of<Body::Kind>() {
  return words_up_to<Body::Kind::load>(
      {"forward", "backward", "weights", "step_begin", "step_end", "load"});
}
template <>
inline EnumWords words_of<MemoryClass>() {
  return named<MemoryClass>(memory_class_count);
}
template <>
inline EnumWords words_of<Region>() {
  return words_up_to<Region::owned>({"persistent", "slot", "task", "window", "host", "owned"});
}
template <>
inline EnumWords words_of<Op>() {
  EnumWords words;
  for (const OpInfo& row : op_table()) words.emplace_back(row.name);
  return words;
}

template <class T>
concept IsEnum = std::is_enum_v<T>;

template <class Enum>
const EnumWords& known_words() {
  static const EnumWords words = words_of<Enum>();
  return words;
}

template <class Enum>
const std::string& word_of(Enum value) {
  return known_words<Enum>().at(static_cast<std::size_t>(value));
}

}  // namespace meshwright::program
