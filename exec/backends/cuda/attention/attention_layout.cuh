// Finds which queries see which keys, and where both are stored: for whole sequences, or for the
// two halves of a sequence that a rank of a context group holds (models/program/graph/context.h)
// and the keys of other ranks. Inside a half, positions are consecutive. Under a causal mask, a
// half sees another half as a whole or not at all.
#pragma once

#include "exec/backends/cuda/attention/attention_tile.cuh"
#include "exec/backends/cuda/attention/heads.cuh"

namespace meshwright::exec::cuda {

// Heads with 32-bit strides, which take fewer registers and faster multiplications than 64 bits.
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
  int held;            // tokens of a sequence on this rank
  int halves;          // 1: consecutive tokens; 2: halves, in a context group
  int length;          // of a half
  int sources;         // ranks whose keys and values are in memory, one after the other
  bool one_source;     // only one rank's keys and values are in memory
  int blocks_at_once;  // about three times the blocks that the GPU runs at once
  int rank, degree, first_step;
  bool causal, vectors;
  float scale;         // factor of products of queries and keys
  float scale_base_2;  // times log2 e
  const int*
      documents;  // for each token of this rank, the position where its document begins, or null

  __device__ int source(int index) const { return (rank + degree - first_step - index) % degree; }
  // Returns the position in the sequence of the first token of a half of rank `of_rank`.
  __device__ int place(int of_rank, int half) const {
    if (halves == 1) return 0;
    return (half == 0 ? of_rank : 2 * degree - 1 - of_rank) * length;
  }
  // Returns the row of a half's first token in q and in tensors of the same layout.
  __device__ int query_row(int sequence, int half) const { return sequence * held + half * length; }
};

// One half of the keys of one rank and sequence. `number` counts the halves in the order in which a
// ring brings them.
struct KeyHalf {
  int source;
  int first_row;  // in the tensor of keys
  int place;      // position of the first key

  __device__ KeyHalf(const AttentionShape& shape, int sequence, int number)
      : source(shape.source(number / shape.halves)),
        first_row(shape.query_row(sequence, number % shape.halves)),
        place(shape.place(source, number % shape.halves)) {
    if (!shape.one_source) first_row += source * shape.batch * shape.held;
  }
};

// Chooses the head and the tile that a block works on. Blocks start in the order of their numbers,
// and the first tiles of a head should be those that take longest. The first tiles of several heads
// come first, so that short tiles fill the end of the last wave. But no more heads than necessary
// run at once, so that the data that the tiles of one head share stays in the L2 cache.
struct TileOrder {
  int head, tile;  // head: counted over all sequences

  __device__ TileOrder(const AttentionShape& shape, int heads, int tiles) {
    const int all = shape.batch * heads;
    const int groups = max(1, all / ((shape.blocks_at_once + tiles - 1) / tiles));
    const int together = (all + groups - 1) / groups;
    const int index = static_cast<int>(blockIdx.x), of_group = together * tiles;
    const int first = index / of_group * together, rest = index % of_group;
    const int here = min(together, all - first);
    head = first + rest % here;
    tile = rest / here;
  }
};

// The queries that a block of a kernel works on. The last queries of each half come first, because
// under a causal mask they see most keys.
struct QueryBlock {
  int sequence, head, half, first;  // first: query in the half

  __device__ QueryBlock(const AttentionShape& shape, int rows) {
    const int tiles = (shape.length + rows - 1) / rows;
    const TileOrder order(shape, shape.heads, tiles * shape.halves);
    sequence = order.head / shape.heads;
    head = order.head % shape.heads;
    half = order.tile % shape.halves;
    first = (tiles - 1 - order.tile / shape.halves) * rows;
  }
};

// Visits, in order, the tiles of `columns` keys that a block of `rows` queries may see. Tiles
// beyond a causal mask are skipped. With `packed` there may be documents, and tiles before the
// document of the first query are skipped.
template <int rows, int columns, bool packed>
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
  __device__ int first() const { return first_; }  // the tile's first key, in its half
  __device__ int row() const { return row_; }      // of the half's first key, in the tensor
  // Returns (position of a query - its index in its half) - (position of a key - its index in its
  // half).
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
      if constexpr (packed) first_ = first_of_document(keys.place);
      if (visible_ > first_) return;
    }
  }
  __device__ int first_of_document(int key_place) const {
    if (shape_.documents == nullptr) return 0;
    const int query = shape_.query_row(block_.sequence, block_.half) + block_.first;
    return max(shape_.documents[query] - key_place, 0) / columns * columns;
  }

  const AttentionShape& shape_;
  const QueryBlock& block_;
  int number_ = 0, first_ = 0, visible_ = 0, ahead_ = 0, row_ = 0;
};

// The keys that a block of a kernel works on, for the queries of all heads that share the key head.
// The first keys of each half come first, because under a causal mask most queries see them.
struct KeyBlock {
  int sequence, head, number, first;  // head of keys; number of the half; first key

  __device__ KeyBlock(const AttentionShape& shape, int rows) {
    const int tiles = (shape.length + rows - 1) / rows, halves = shape.sources * shape.halves;
    const TileOrder order(shape, shape.kv_heads, tiles * halves);
    sequence = order.head / shape.kv_heads;
    head = order.head % shape.kv_heads;
    number = order.tile % halves;
    first = order.tile / halves * rows;
  }
};

// Visits, head by head, the tiles of `columns` queries that may see a block of `rows` keys. Tiles
// before the keys are skipped under a causal mask. With `packed` there may be documents, and tiles
// of queries whose documents begin after the keys are skipped.
template <int rows, int columns, bool packed>
class QueryTiles {
 public:
  __device__ QueryTiles(const AttentionShape& shape, const KeyBlock& block, int key_place)
      : shape_(shape), block_(block), key_place_(key_place) {
    enter();
  }
  __device__ bool done() const { return number_ == shape_.heads / shape_.kv_heads * shape_.halves; }
  __device__ void advance() {
    first_ += columns;
    if (first_ < shape_.length && !is_past()) return;
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
      if (first_ < shape_.length && !is_past()) return;
    }
  }
  // Returns whether the document of the tile's first query begins after the block's keys. This is
  // then true of all later queries too.
  __device__ bool is_past() const {
    if (!packed || shape_.documents == nullptr) return false;
    const int query = shape_.query_row(block_.sequence, half()) + first_;
    return shape_.documents[query] >= key_place_ + block_.first + rows;
  }

  const AttentionShape& shape_;
  const KeyBlock& block_;
  int key_place_, number_ = 0, first_ = 0;
};

}  // namespace meshwright::exec::cuda
