// Holds the sizes of a model that rules about plans depend on. They are known before any graph is
// built.
#pragma once

#include <array>
#include <cstdint>

#include "models/core/dtype.h"
#include "models/core/rooms.h"

namespace meshwright::architectures {

struct ModelSizes {
  int hidden = 0, layers = 0, heads = 0, kv_heads = 0, ffn = 0, positions = 0;
  std::int64_t vocabulary = 0;
  bool learned_positions = false;
  int experts = 0;             // number in blocks with experts; 0: none
  bool dropless = false;       // see models/program/graph/experts.h
  bool choice_biases = false;  // routers have a bias that only affects the choice
  bool balances = false;       // a loss of each sequence balances the experts
  int shared_ffn = 0;          // width of the experts for all tokens; 0: none
  int dense_ffn = 0;           // width in blocks without experts; 0: there are none
  bool sinks = false;          // attention has sinks
  bool bare_norms = false;     // norms have no weights
  bool latent = false;         // keys and values of all heads come from one latent vector
  int embedding = 0;           // width of the token table; 0: the hidden size
  bool shares_layers = false;  // all blocks have the same parameters
  bool has_decoder = false;    // a second stack reads the first one's output
  bool reads_images = false;   // a sequence is an image of `positions` tokens
  bool can_pack = true;        // a decoder's lm head, and not from an ONNX file
  bool captured = false;       // its operations are not known
  int units = 0;               // of a captured model: what a pipeline can cut; 0: by layers
  // A tensor group can divide a captured model in so many parts, without and with sequence
  // parallelism. The lists end with 0.
  std::array<int, 8> tensor_degrees{}, sequence_degrees{};
  int micro_batch = 0;                    // the only micro-batch that a captured model has; 0: any
  Precision precision = Precision::fp32;  // of a captured model
  int tokens_per_sample = 0;              // of a captured model; 0: it has no tokens
  bool can_predict_ahead = true;          // can_pack, RMSNorms, no position table
};

}  // namespace meshwright::architectures
