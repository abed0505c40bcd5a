// A model that was captured from the user's own PyTorch code (tools/python/meshwright/torch): what
// it reads, its parameters, and its forward as a list of segments in order of execution. PyTorch
// runs the segments; meshwright knows the sizes of what they hand to each other and the kernels
// that they run. docs/own-model.md describes the file.
//
// Why segments, and not our own operations: any module can be captured, whatever it computes. What
// is lost is what only known operations allow: tensor, context and expert parallelism.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "models/core/dtype.h"
#include "models/core/fields.h"
#include "models/program/graph/op_table.h"
#include "models/program/graph/tensor_type.h"

namespace meshwright::program {
struct Graph;
struct Training;
}  // namespace meshwright::program

namespace meshwright::architectures {

struct Model;

// A number that grows with the samples of a micro-batch.
struct Scaled {
  double fixed = 0, per_sample = 0;
  double of(int micro_batch) const { return fixed + per_sample * micro_batch; }
};

struct CapturedInput {
  std::string name;
  Scaled bytes;
};

struct CapturedParameter {
  std::string name;
  Shape shape;  // at most four dimensions; the last one stands for all further ones
  bool trainable = true;
  bool counted = true;         // false for a buffer
  std::optional<bool> decays;  // whether weight decay applies; unset: to matrices only
};

// A tensor that one segment makes and others read.
struct CapturedTensor {
  Scaled bytes;
  bool has_gradient = false;
  std::optional<Dtype> dtype;  // of its numbers, or of their parts if they are complex
  int maker = -1;              // its segment
};

struct CapturedKernel {
  Kernel::Kind kind = Kernel::Kind::memory;
  Scaled m, n, k, batch, flops, bytes;
  std::optional<Precision> precision;  // of a product or attention, where it is not the model's
  bool causal = false;  // attention with a causal mask, of whose FLOPs a kernel skips half
};

// The work of a segment as one compiler level runs it. Bytes of `saved` are what its backward needs
// beside tensors, parameters and inputs; those of a workspace live while the segment runs.
struct CapturedWork {
  std::vector<CapturedKernel> forward, backward;
  Scaled saved, forward_workspace, backward_workspace;
};

struct SegmentKind {
  CapturedWork eager, compiled;
};

struct CapturedSegment {
  std::string module;  // "" if it belongs to none
  int kind = 0;
  std::vector<int> inputs, parameters;  // the parameters include buffers
  std::vector<int> reads, makes;        // tensors; it may make none, as what only writes a buffer
  std::vector<int> saves;               // of these, those that the backward reads
};

// Consecutive segments that stay together: they are on one stage of a pipeline, and if they are
// recomputed, then as a whole.
struct CapturedUnit {
  std::string path;
  int begin = 0, end = 0;  // segments
  bool is_block = false;
};

struct CapturedModel {
  std::string name;
  Precision precision = Precision::fp32;
  int micro_batch = 1;            // of the example
  std::string fixed_micro_batch;  // why no other is possible; "" if others are
  int tokens_per_sample = 0;      // 0: samples have no tokens
  std::vector<CapturedInput> inputs;
  std::vector<CapturedParameter> parameters;
  std::vector<CapturedTensor> tensors;
  std::vector<SegmentKind> kinds;
  std::vector<CapturedSegment> segments;
  std::vector<CapturedUnit> units;
  int loss = -1;     // a tensor
  std::string hash;  // of its weights' names and shapes
};

// Returns the model that the content of an `own.model.json` describes. Throws InputError, which
// names the file and the place.
Model read_captured(Fields fields);

// Returns whether the JSON object of a model file is a captured model.
bool is_captured(Fields& fields);

// Returns the units of the segments: each block (what lies below a module path up to its first
// number, such as `transformer.h.3`) and each run of segments between blocks. A unit that has more
// than a twentieth of the model's work is divided where least is handed on, for a pipeline can be
// balanced no better than its units allow.
std::vector<CapturedUnit> units_of(const CapturedModel& model);

// Returns the model without what PyTorch's own allocator holds while it runs: what segments keep
// for their backward, and their workspaces. Programs that run have memory for the rest.
CapturedModel without_kept_by_torch(CapturedModel model);

// Returns the forward graph of one micro-batch, as build_graph() does, which calls it if
// model.captured is set.
Graph lay_out_captured(const Model& model, const Training& training);

}  // namespace meshwright::architectures
