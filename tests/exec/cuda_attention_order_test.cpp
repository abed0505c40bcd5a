// Tests the order in which thread blocks process the tiles of attention: each tile once, and so
// that a GPU waits little at the end.
#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <queue>
#include <set>
#include <vector>

#include "exec/backends/cuda/attention/attention_layout.cuh"
#include "exec/backends/cuda/device/launch.h"
#include "tests/catch.h"
#include "tests/exec/device_array.h"

using namespace meshwright::tests;
using namespace meshwright::exec::cuda;

namespace {

constexpr int rows = 64, columns = 64;
constexpr int multiprocessors = 132, blocks_of_each = 2;  // an H100's

struct Taken {
  int sequence, head, part, first, tiles;
};

__global__ void take_queries(AttentionShape shape, Taken* taken) {
  const QueryBlock block(shape, rows);
  int tiles = 0;
  for (KeyTiles<rows, columns, true> keys(shape, block); !keys.done(); keys.advance()) ++tiles;
  taken[blockIdx.x] = {block.sequence, block.head, block.half, block.first, tiles};
}

__global__ void take_keys(AttentionShape shape, Taken* taken) {
  const KeyBlock block(shape, rows);
  const KeyHalf keys(shape, block.sequence, block.number);
  int tiles = 0;
  for (QueryTiles<rows, columns, true> queries(shape, block, keys.place); !queries.done();
       queries.advance())
    ++tiles;
  taken[blockIdx.x] = {block.sequence, block.head, block.number, block.first, tiles};
}

std::vector<Taken> taken_by(void (*kernel)(AttentionShape, Taken*), const AttentionShape& shape,
                            int heads, int parts) {
  const int tiles = (shape.length + rows - 1) / rows;
  const auto blocks = static_cast<unsigned int>(shape.batch * heads * parts * tiles);
  const DeviceArray<Taken> taken(std::vector<Taken>(blocks, Taken{}));
  launch(kernel, {blocks}, {1}, 0, nullptr, shape, taken.data());
  return taken.get();
}

// Returns the time at which the last block ends, relative to the time without any waiting. Each
// block takes as long as it has tiles and starts, in order, as soon as another one ends.
double beside_ideal(const std::vector<Taken>& blocks) {
  constexpr int slots = multiprocessors * blocks_of_each;
  std::priority_queue<int, std::vector<int>, std::greater<>> ends;
  int last = 0, sum = 0, longest = 0;
  for (const Taken& block : blocks) {
    int begin = 0;
    if (static_cast<int>(ends.size()) == slots) begin = ends.top(), ends.pop();
    ends.push(begin + block.tiles);
    last = std::max(last, begin + block.tiles);
    longest = std::max(longest, block.tiles);
    sum += block.tiles;
  }
  return last / std::max<double>(longest, static_cast<double>(sum) / slots);
}

AttentionShape shape_of(int batch, int heads, int kv_heads, int length) {
  AttentionShape shape{};
  shape.batch = batch, shape.heads = heads, shape.kv_heads = kv_heads;
  shape.held = shape.length = length;
  shape.halves = shape.sources = shape.degree = 1;
  shape.one_source = shape.causal = true;
  shape.blocks_at_once = 6 * multiprocessors;
  return shape;
}

void check_each_once(const std::vector<Taken>& blocks) {
  std::set<std::array<int, 4>> seen;
  for (const Taken& block : blocks)
    seen.insert({block.sequence, block.head, block.part, block.first});
  CHECK(seen.size() == blocks.size());
}

}  // namespace

TEST_CASE("blocks of CUDA attention end together", "[exec][cuda]") {
  struct Model {
    const char* name;
    int batch, heads, kv_heads, length;
  };
  for (const Model& model : {Model{"GPT-2", 32, 12, 12, 1024}, Model{"GPT-2 XL", 8, 25, 25, 1024},
                             Model{"Llama 1.1B", 4, 32, 4, 4096}, Model{"8B", 1, 32, 8, 8192}}) {
    INFO(model.name);
    const AttentionShape shape = shape_of(model.batch, model.heads, model.kv_heads, model.length);
    const auto queries = taken_by(take_queries, shape, shape.heads, 1);
    const auto keys = taken_by(take_keys, shape, shape.kv_heads, 1);
    CHECK(beside_ideal(queries) < 1.02);
    CHECK(beside_ideal(keys) < 1.02);
  }
}

TEST_CASE("blocks of CUDA attention take every tile once", "[exec][cuda]") {
  for (const int length : {1, 64, 65, 700})
    for (const int at_once : {1, 7, 24, 1000}) {
      INFO("length " << length << ", blocks at once " << at_once);
      AttentionShape shape = shape_of(3, 6, 2, length);
      shape.blocks_at_once = at_once;
      check_each_once(taken_by(take_queries, shape, 6, 1));
      check_each_once(taken_by(take_keys, shape, 2, 1));
      shape.halves = 2, shape.degree = shape.sources = 4, shape.one_source = false;
      check_each_once(taken_by(take_queries, shape, 6, 2));
      check_each_once(taken_by(take_keys, shape, 2, 8));
    }
}

TEST_CASE("blocks of CUDA attention leave out tiles of other documents", "[exec][cuda]") {
  constexpr int length = 700, batch = 2, heads = 4;
  for (const int longest : {1, 50, 64, 300, 700}) {
    INFO("documents of " << longest);
    std::vector<int> documents;
    for (int token = 0; token < batch * length; ++token)
      documents.push_back(token % length / longest * longest);
    const DeviceArray<int> on_device(documents);
    AttentionShape shape = shape_of(batch, heads, heads, length);
    shape.documents = on_device.data();
    const auto begin_of = [&](const Taken& block, int place) {
      return documents[static_cast<std::size_t>(block.sequence * length + place)];
    };
    const auto queries = taken_by(take_queries, shape, heads, 1);
    check_each_once(queries);
    for (const Taken& block : queries) {
      const int end = std::min(block.first + rows, length);
      int expected = 0;
      for (int key = 0; key < end; key += columns)
        if (key + columns > begin_of(block, block.first)) ++expected;
      CHECK(block.tiles == expected);
    }
    for (const Taken& block : taken_by(take_keys, shape, heads, 1)) {
      int expected = 0;
      for (int query = block.first; query < length; query += columns)
        if (begin_of(block, query) < block.first + rows) ++expected;
      CHECK(block.tiles == expected);
    }
  }
}
