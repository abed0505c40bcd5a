// The sizes of a model that the rules about plans look at. They are known before any graph is
// built.
#pragma once

#include <cstdint>

namespace meshwright {

struct ModelSizes {
  int hidden = 0, layers = 0, heads = 0, kv_heads = 0, ffn = 0, positions = 0;
  std::int64_t vocabulary = 0;
  bool learned_positions = false;
  int experts = 0;                // of every block; 0: none
  bool dropless = false;          // their rows are as many as tokens chose them
  bool choice_biases = false;     // routers have a bias for the choice alone
  bool balances = false;          // a loss of each sequence makes their use even
  int shared_ffn = 0;             // of experts for all tokens; 0: none
  int dense_ffn = 0;              // of blocks without experts, beside others; 0: none
  bool sinks = false;             // of attention
  bool latent = false;            // keys and values of all heads come from one latent vector
  int embedding = 0;              // width of the token table, where it is not the hidden size
  bool shares_layers = false;     // all blocks have the same parameters
  bool has_decoder = false;       // all blocks of a second stack read what the first one made
  bool reads_images = false;      // a sequence is an image: as many tokens as there are positions
  bool can_pack = true;           // it says the next token, and its layers are known
  bool can_predict_ahead = true;  // and its blocks read rows of RMSNorms, in places that they turn
};

}  // namespace meshwright
