// Computes what attention adds to plain scores and probabilities: a soft cap, ALiBi, biases by
// relative position and masks for scores, and dropout for probabilities. Scores are in base 2,
// which is the natural score times log2 e.
#pragma once

#include "exec/backends/cuda/attention/attention_layout.cuh"

namespace meshwright::exec::cuda {

constexpr float log2_e = 1.44269504f, ln_2 = 0.693147181f;

struct ScoreExtras {
  int first_head;   // this rank's first head, counted in the whole model
  int alibi_heads;  // number of heads of the whole model; 0: no ALiBi
  // The bias of each head for the distances from -farthest to farthest, [heads, 2 farthest + 1], in
  // base 2. Greater distances have the bias of the farthest one. Null without relative positions.
  const float* bias;
  int farthest;
  unsigned int dropped;  // a random word below this drops; 0: no dropout
  float kept_scale;
  unsigned long long key;
  const long long* step_sequence;
  long long first_sequence;  // sequences of the step before the micro-batch's first
  long long whole_length;    // of a sequence
  int window;                // most keys that a query sees, its own included; 0: no limit
  int chunk;                 // length of a chunk, before which a query sees no key; 0: no chunks
  float cap;  // a product p of a query and a key becomes cap * tanh(p / cap); 0: no cap

  bool any() const {
    return alibi_heads > 0 || bias != nullptr || dropped > 0 || window > 0 || chunk > 0 ||
           cap > 0.0f;
  }
};

// Returns ALiBi's slope of a head of a model with n heads (Press et al., 2022). With p the largest
// power of two up to n, the slope of head h < p is 2^(-8 (h+1) / p). The other heads have the
// first, third, fifth, ... slope of a model with 2p heads.
inline __device__ float alibi_slope(int head, int heads) {
  int power = 1;
  while (2 * power <= heads) power *= 2;
  const float exponent = head < power ? -8.0f * static_cast<float>(head + 1)
                                      : -4.0f * static_cast<float>(2 * (head - power) + 1);
  return exp2f(exponent / static_cast<float>(power));
}

// Computes the scores of one query head. The object refers to the kernel's parameters instead of
// copying them, because registers are scarce.
class Score {
 public:
  __device__ Score(const AttentionShape& shape, const ScoreExtras& extras, int sequence, int head,
                   int query_half)
      : shape_(shape),
        farthest_(extras.farthest),
        window_(extras.window),
        chunk_(extras.chunk),
        bias_(extras.bias) {
    if (extras.alibi_heads > 0)
      slope_ = alibi_slope(extras.first_head + head, extras.alibi_heads) * log2_e;
    if (bias_ != nullptr) bias_ += head * (2LL * farthest_ + 1) + farthest_;
    if (shape.documents == nullptr) return;
    const int place = shape.place(shape.rank, query_half);
    documents_ = shape.documents + (shape.query_row(sequence, query_half) - place);
    last_ = place + shape.length - 1;
  }
  // Returns the base-2 score for the product of the query at position `place` and the key
  // `distance` positions after the query.
  __device__ float operator()(float product, int distance, int place) const {
    float score = fmaf(slope_, static_cast<float>(distance), product * shape_.scale_base_2);
    if (bias_ != nullptr) score += bias_[min(max(distance, -farthest_), farthest_)];
    // The score of a hidden key is finite, because a row of a tile may have only hidden keys.
    // Scores of other tiles then outweigh it.
    constexpr float hidden = -1e30f;
    if (window_ > 0 && distance <= -window_) return hidden;
    if (documents_ != nullptr) {
      const bool later = !shape_.causal && documents_[min(place + distance, last_)] > place;
      place -= documents_[min(place, last_)];
      if (later || distance < -place) return hidden;
    }
    return chunk_ > 0 && distance < -(place % chunk_) ? hidden : score;
  }

 private:
  const AttentionShape& shape_;
  const int& farthest_;
  const int& window_;
  const int& chunk_;
  float slope_ = 0.0f;
  const float* bias_;
  const int* documents_ = nullptr;  // indexed by position
  int last_ = 0;                    // position of the half's last query
};

// Applies the soft cap to products of queries and keys. Does nothing if `cap` is 0.
template <int M, int N>
__device__ inline void cap_products(float (&products)[M][N][4], float cap) {
  if (cap == 0.0f) return;
  const float inverse = 1.0f / cap;
  for_elements(products, [&](float& x, int, int) { x = cap * tanhf(x * inverse); });
}

// Multiplies the gradients of capped products by the derivative of the cap. `products` are the
// products before the cap.
template <int M, int N>
__device__ inline void uncap_gradients(float (&gradients)[M][N][4],
                                       const float (&products)[M][N][4], float cap) {
  const float inverse = 1.0f / cap;
#pragma unroll
  for (int m = 0; m < M; ++m)
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float y = tanhf(products[m][n][i] * inverse);
        gradients[m][n][i] *= fmaf(-y, y, 1.0f);
      }
}

// Finds which probabilities of one query head dropout keeps. A Philox block has the random words of
// four neighbouring keys of one query. The lanes of a warp share the work and pass words to each
// other.
class KeptWeights {
 public:
  __device__ KeptWeights(const AttentionShape& shape, const ScoreExtras& extras, int sequence,
                         int head, int query_half)
      : extras_(extras) {
    if (!any()) return;
    sequence_ = *extras.step_sequence + extras.first_sequence + sequence;
    row_ = static_cast<unsigned int>((extras.first_head + head) * extras.whole_length +
                                     shape.place(shape.rank, query_half));
  }
  __device__ bool any() const { return extras_.dropped > 0; }

  // Returns a bit for each of the lane's elements of a 16 x 8 piece with queries down and keys
  // across, which is set if the element is kept. `query` is the query of the first row and `key`
  // the key of the first column, both counted in their halves. The keys' half begins at position
  // `key_place`.
  __device__ unsigned int across(int query, int key, int key_place) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, t = lane % 4, g = lane / 4;
    if (key_place % 4 != 0)
      return one_by_one(
          [&](int i) { return word(query + g + i / 2 * 8, key_place + key + 2 * t + i % 2); });
    // An even lane makes the Philox block of row g, and the odd lane next to it that of row g + 8,
    // for the same four keys.
    const bool odd = t % 2 != 0;
    const Random own = block(query + g + (odd ? 8 : 0), (key_place + key) / 4 + t / 2);
    const unsigned int first = other(odd ? own.word[0] : own.word[2], 1),
                       second = other(odd ? own.word[1] : own.word[3], 1);
    return bits(odd ? first : own.word[0], odd ? second : own.word[1], odd ? own.word[2] : first,
                odd ? own.word[3] : second);
  }

  // Returns the bits that across() returns, but for a piece with keys down and queries across.
  __device__ unsigned int down(int query, int key, int key_place) const {
    const int lane = static_cast<int>(threadIdx.x) % 32, t = lane % 4, g = lane / 4;
    if (key_place % 4 != 0)
      return one_by_one(
          [&](int i) { return word(query + 2 * t + i % 2, key_place + key + g + i / 2 * 8); });
    // The four lanes with keys of one Philox block make one block each, for queries 2t and 2t + 1
    // and keys g and g + 8. Lane q needs word q of all four, which is a 4 x 4 transposition in two
    // steps.
    const int q = g % 4;
    Random x = block(query + 2 * t + q % 2, (key_place + key) / 4 + q / 2 * 2 + g / 4);
    const bool odd = q % 2 != 0, high = q / 2 != 0;
    swap(x.word[0], x.word[1], odd, 4);
    swap(x.word[2], x.word[3], odd, 4);
    swap(x.word[0], x.word[2], high, 8);
    swap(x.word[1], x.word[3], high, 8);
    return bits(x.word[0], x.word[1], x.word[2], x.word[3]);
  }

  // Returns x scaled for dropout if it is kept, otherwise 0.
  __device__ float left(float x, bool is_kept) const {
    return is_kept ? x * extras_.kept_scale : 0.0f;
  }

 private:
  __device__ Random block(int query, int four_keys) const {
    return philox(static_cast<unsigned int>(four_keys), row_ + static_cast<unsigned int>(query),
                  static_cast<unsigned int>(sequence_),
                  static_cast<unsigned int>(static_cast<unsigned long long>(sequence_) >> 32),
                  extras_.key);
  }
  __device__ unsigned int word(int query, int place) const {
    unsigned int words[1];
    random_words<1>(words, extras_.key, sequence_, row_ + static_cast<unsigned int>(query), place);
    return words[0];
  }
  __device__ unsigned int kept(unsigned int word) const { return word < extras_.dropped ? 0u : 1u; }
  __device__ unsigned int bits(unsigned int a, unsigned int b, unsigned int c,
                               unsigned int d) const {
    return kept(a) | kept(b) << 1 | kept(c) << 2 | kept(d) << 3;
  }
  static __device__ unsigned int other(unsigned int word, int distance) {
    return __shfl_xor_sync(0xffffffffu, word, distance);
  }
  // Exchanges words with the lane that is `distance` away: the lane whose `second` is set gives its
  // a for the other lane's b.
  static __device__ void swap(unsigned int& a, unsigned int& b, bool second, int distance) {
    const unsigned int got = other(second ? a : b, distance);
    a = second ? got : a;
    b = second ? b : got;
  }
  // Finds the kept elements one by one, for a half that begins inside a block of four keys.
  template <typename Word>
  __device__ unsigned int one_by_one(const Word& word_of) const {
    unsigned int all = 0;
#pragma unroll 1
    for (int i = 0; i < 4; ++i) all |= kept(word_of(i)) << i;
    return all;
  }

  const ScoreExtras& extras_;
  long long sequence_ = 0;
  unsigned int row_ = 0;
};

}  // namespace meshwright::exec::cuda
