// Which queries meet which keys, and where they lie: of whole sequences, or of the two halves of
// what a rank of a context group holds (models/graph/context.h) and the keys of other ranks. Inside
// a half, places are consecutive, and halves are in or out of each other's sight as a whole but for
// the diagonal.
#pragma once

#include "exec/backends/cuda/attention/attention_tile.cuh"
#include "exec/backends/cuda/attention/heads.cuh"

namespace meshwright::cuda {

// Heads, with strides whose products take one instruction and two registers.
template <typename T>
struct NearHeads {
  T* data = nullptr;
  int row = 0, head = 0;

  NearHeads() = default;
  NearHeads(const Heads<T>& heads)
      : data(heads.data), row(static_cast<int>(heads.row)), head(static_cast<int>(heads.head)) {}
  __device__ T* at(int token, int h) const {
    return data + (static_cast<long long>(token) * row + h * head);
  }
};

struct AttentionShape {
  int batch, heads, kv_heads, dim;
  int held;         // tokens of a sequence on this rank
  int halves;       // 1: the tokens follow each other; 2: a context group shares them
  int length;       // of a half
  int sources;      // ranks whose keys and values are at hand, one behind the other
  bool one_source;  // the first of them is all there is in memory, whoever's it is
  int rank, degree, first_step;
  bool causal, vectors;
  float scale;         // of products of queries and keys
  float scale_base_2;  // times log2 e

  __device__ int source(int index) const { return (rank + degree - first_step - index) % degree; }
  // The place in the sequence of a half's first token.
  __device__ int place(int of_rank, int half) const {
    if (halves == 1) return 0;
    return (half == 0 ? of_rank : 2 * degree - 1 - of_rank) * length;
  }
  // The row of a half's first token, of q and what is like it.
  __device__ int query_row(int sequence, int half) const { return sequence * held + half * length; }
};

// A half of one rank's keys, numbered in the order in which a ring brings them.
struct KeyHalf {
  int source;
  int first_row;  // of the keys' tensor
  int place;

  __device__ KeyHalf(const AttentionShape& shape, int sequence, int number)
      : source(shape.source(number / shape.halves)),
        first_row(shape.query_row(sequence, number % shape.halves)),
        place(shape.place(source, number % shape.halves)) {
    if (!shape.one_source) first_row += source * shape.batch * shape.held;
  }
};

// What a block of a kernel over queries works on; blocks of one head follow each other, the ones
// with most keys first.
struct QueryBlock {
  int sequence, head, half, first;  // query

  __device__ QueryBlock(const AttentionShape& shape, int rows) {
    const int tiles = (shape.length + rows - 1) / rows;
    int rest = static_cast<int>(blockIdx.x);
    first = (tiles - 1 - rest % tiles) * rows;
    rest /= tiles;
    half = rest % shape.halves;
    rest /= shape.halves;
    head = rest % shape.heads;
    sequence = rest / shape.heads;
  }
};

// Tiles of `columns` keys that a block of `rows` queries sees, in order.
template <int rows, int columns>
class KeyTiles {
 public:
  __device__ KeyTiles(const AttentionShape& shape, const QueryBlock& block)
      : shape_(shape), block_(block) {
    enter();
  }
  __device__ bool done() const { return number_ == shape_.sources * shape_.halves; }
  __device__ void advance() {
    first_ += columns;
    if (first_ < visible_) return;
    ++number_;
    enter();
  }
  __device__ int first() const { return first_; }  // key of the half
  __device__ int row() const { return row_; }      // of the half's first key
  // How far the queries' places are ahead of their numbers, less the keys'.
  __device__ int ahead() const { return ahead_; }
  __device__ int key_place() const { return place() - ahead_; }

 private:
  __device__ int place() const { return shape_.place(shape_.rank, block_.half); }
  __device__ void enter() {
    for (first_ = 0; !done(); ++number_) {
      const KeyHalf keys(shape_, block_.sequence, number_);
      row_ = keys.first_row;
      ahead_ = place() - keys.place;
      visible_ = shape_.length;
      if (shape_.causal) visible_ = min(min(block_.first + rows, visible_) + ahead_, visible_);
      if (visible_ > 0) return;
    }
  }

  const AttentionShape& shape_;
  const QueryBlock& block_;
  int number_ = 0, first_ = 0, visible_ = 0, ahead_ = 0, row_ = 0;
};

// What a block of a kernel over keys works on: the queries of all heads that share its head.
struct KeyBlock {
  int sequence, head, number, first;  // head of keys; half's number; key

  __device__ KeyBlock(const AttentionShape& shape, int rows) {
    const int tiles = (shape.length + rows - 1) / rows;
    int rest = static_cast<int>(blockIdx.x);
    first = rest % tiles * rows;
    rest /= tiles;
    number = rest % (shape.sources * shape.halves);
    rest /= shape.sources * shape.halves;
    head = rest % shape.kv_heads;
    sequence = rest / shape.kv_heads;
  }
};

// Tiles of `columns` queries that see a block of keys, head by head.
template <int columns>
class QueryTiles {
 public:
  __device__ QueryTiles(const AttentionShape& shape, const KeyBlock& block, int key_place)
      : shape_(shape), block_(block), key_place_(key_place) {
    enter();
  }
  __device__ bool done() const { return number_ == shape_.heads / shape_.kv_heads * shape_.halves; }
  __device__ void advance() {
    first_ += columns;
    if (first_ < shape_.length) return;
    ++number_;
    enter();
  }
  __device__ int first() const { return first_; }
  __device__ int half() const { return number_ % shape_.halves; }
  __device__ int head() const {
    return block_.head * (shape_.heads / shape_.kv_heads) + number_ / shape_.halves;
  }
  __device__ int ahead() const { return shape_.place(shape_.rank, half()) - key_place_; }

 private:
  __device__ void enter() {
    for (; !done(); ++number_) {
      first_ = shape_.causal ? max(block_.first - ahead(), 0) / columns * columns : 0;
      if (first_ < shape_.length) return;
    }
  }

  const AttentionShape& shape_;
  const KeyBlock& block_;
  int key_place_, number_ = 0, first_ = 0;
};

}  // namespace meshwright::cuda
