// Describes a model that was captured from the user's own PyTorch code
// (tools/python/meshwright/torch): its inputs, its parameters, and its forward pass as a list of
// segments in order of execution. PyTorch runs the segments. Meshwright knows the kernels that they
// run and the sizes of the tensors that they pass on. docs/own-model.md describes the file.
//
// The forward pass is a list of segments instead of operations, so that any module can be captured,
// whatever it computes. The price is that context and expert parallelism are impossible, because
// they need known operations. For tensor parallelism, the capture itself divides the linear layers
// that it can, and the file has the segments of one rank for each degree.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "models/core/dtype.h"
#include "models/core/fields.h"
#include "models/program/graph/op.h"
#include "models/program/graph/op_table.h"
#include "models/program/graph/tensor_type.h"

namespace meshwright::program {
struct Graph;
struct Training;
}  // namespace meshwright::program

namespace meshwright::architectures {

struct Model;

// Holds a number that grows with the samples of a micro-batch.
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

// Describes a tensor that one segment makes and others may read.
struct CapturedTensor {
  Scaled bytes;
  bool has_gradient = false;
  bool is_exchanged = false;   // between the ranks of a tensor group
  std::optional<Dtype> dtype;  // of its elements, or of their parts if they are complex
  int maker = -1;              // number of the segment that makes it
};

struct CapturedKernel {
  Kernel::Kind kind = Kernel::Kind::memory;
  Scaled m, n, k, batch, flops, bytes;
  std::optional<Precision> precision;  // of a matmul or attention, if it is not the model's
  bool causal = false;                 // attention with a causal mask, which halves its FLOPs
};

// Describes the work of a segment at one compiler level. `saved` counts the bytes that its backward
// pass needs in addition to tensors, parameters and inputs. Workspaces live while the segment runs.
struct CapturedWork {
  std::vector<CapturedKernel> forward, backward;
  Scaled saved, forward_workspace, backward_workspace;
};

struct SegmentKind {
  CapturedWork eager, compiled;
};

// Describes a part of the work between two cuts, or an exchange between the ranks of a tensor
// group, which reads one tensor and makes one.
struct CapturedSegment {
  std::string module;  // "" if it belongs to none
  int kind = -1;       // -1: an exchange
  std::optional<Op> exchange;
  bool gradient_is_whole = false;       // of Op::sequence_gather
  std::vector<int> inputs, parameters;  // the parameters include buffers
  std::vector<int> reads, makes;        // tensors; a segment that only writes a buffer makes none
  std::vector<int> saves;               // those of `reads` and `makes` that the backward pass reads
};

// Groups consecutive segments that stay together: they are on one stage of a pipeline, and they are
// recomputed as a whole or not at all.
struct CapturedUnit {
  std::string path;
  int begin = 0, end = 0;  // segments from `begin` to before `end`
  bool is_block = false;
};

// Says that each rank of a tensor group has its share of each of the parts of an axis of a
// parameter.
struct CapturedCut {
  int parameter = 0, axis = 0;
  std::vector<std::int64_t> parts;
};

struct CapturedModel {
  std::string name;
  Precision precision = Precision::fp32;
  int micro_batch = 1;            // of the example that was captured
  std::string fixed_micro_batch;  // why no other is possible; "": others are
  int tokens_per_sample = 0;      // 0: samples have no tokens
  std::vector<CapturedInput> inputs;
  std::vector<CapturedParameter> parameters;
  std::vector<CapturedTensor> tensors;
  std::vector<SegmentKind> kinds;
  std::vector<CapturedSegment> segments;
  std::vector<CapturedUnit> units;
  int loss = -1;     // number of the tensor
  std::string hash;  // of the names and shapes of its weights

  // The same model as one rank of a tensor group runs it, for each degree that was captured.
  std::vector<std::shared_ptr<const CapturedModel>> on_ranks;
  // The following describe such a rank. `summed` are whole parameters of whose gradient each rank
  // has a summand.
  int tensor_degree = 1;
  bool sequence_parallel = false;
  std::vector<CapturedCut> cuts;
  std::vector<int> summed;
};

// Returns what one of `tensor` ranks runs of a model. Throws InputError if the model was not
// captured for this degree.
const CapturedModel& of_rank(const CapturedModel& model, int tensor, bool sequence_parallel);

// Returns the model that the content of an `own.model.json` describes. Throws InputError, which
// names the file and the key, if it is wrong.
Model read_captured(Fields fields);

// Returns whether the JSON object of a model file is a captured model.
bool is_captured(Fields& fields);

// Returns the units of the segments: each block (the segments below a module path up to its first
// number, such as `transformer.h.3`) and each run of segments between blocks. A unit of several
// segments that has more than a twentieth of the model's work is divided further, because a
// pipeline can be balanced only by whole units. It is divided where the fewest bytes are handed on,
// among the places that leave enough work on both sides.
std::vector<CapturedUnit> units_of(const CapturedModel& model);

// Returns the model without the memory that PyTorch's own allocator holds while it runs: the data
// that segments save for their backward pass, and their workspaces. Programs of a script's run are
// made of such a model.
CapturedModel without_kept_by_torch(CapturedModel model);

// Returns the forward graph of one micro-batch, as build_graph() does, which calls it if
// model.captured is set.
Graph lay_out_captured(const Model& model, const Training& training);

}  // namespace meshwright::architectures
