#include "sim/collectives/rounds.h"

#include <algorithm>
#include <numeric>

#include "sim/collectives/all_to_all.h"
#include "sim/collectives/chain.h"
#include "sim/collectives/halving.h"
#include "sim/collectives/ring.h"
#include "sim/collectives/switch.h"
#include "sim/collectives/tree.h"
#include "sim/collectives/two_levels.h"
#include "tests/catch.h"

using namespace meshwright::tests;

namespace {

constexpr Grid grids[] = {{1, 2}, {1, 3}, {1, 4}, {1, 7}, {1, 8}, {2, 1}, {3, 1}, {7, 1},
                          {8, 1}, {2, 2}, {2, 4}, {3, 4}, {5, 2}, {6, 3}, {2, 8}};

// Returns buffers in which rank r holds 2^r in every chunk, so that a sum shows which ranks it
// includes.
Buffers powers(const Rounds& rounds) {
  Buffers buffers;
  for (int rank = 0; rank < rounds.ranks; ++rank)
    buffers.emplace_back(static_cast<std::size_t>(rounds.chunks), std::int64_t{1} << rank);
  return buffers;
}

void check_all_reduced(const Rounds& rounds) {
  const std::int64_t everyone = (std::int64_t{1} << rounds.ranks) - 1;
  for (const auto& buffer : interpret(rounds, powers(rounds)))
    for (const std::int64_t value : buffer) CHECK(value == everyone);
}

std::int64_t total(const std::vector<std::int64_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace

TEST_CASE("an all-reduce leaves the sum on every rank", "[sim][collectives]") {
  for (const Grid grid : grids) {
    INFO(grid.hosts << " hosts x " << grid.per_host);
    check_all_reduced(ring_all_reduce(grid.ranks()));
    check_all_reduced(two_level_all_reduce(grid));
    check_all_reduced(halving_all_reduce(grid));
    for (const int chunks : {1, 5}) {
      check_all_reduced(tree_all_reduce(grid, chunks));
      check_all_reduced(switch_all_reduce(grid, chunks));
    }
    check_all_reduced(chain_all_reduce(grid.ranks(), 5));
  }
}

TEST_CASE("a reduce-scatter leaves each rank the sum of its own chunk", "[sim][collectives]") {
  for (const Grid grid : grids)
    for (const Rounds& rounds :
         {ring_reduce_scatter(grid.ranks()), two_level_reduce_scatter(grid)}) {
      const Buffers result = interpret(rounds, powers(rounds));
      for (std::size_t rank = 0; rank < result.size(); ++rank)
        CHECK(result[rank][rank] == (std::int64_t{1} << grid.ranks()) - 1);
    }
}

TEST_CASE("an all-gather leaves every rank all chunks", "[sim][collectives]") {
  for (const Grid grid : grids)
    for (const Rounds& rounds : {ring_all_gather(grid.ranks()), two_level_all_gather(grid)}) {
      const auto ranks = static_cast<std::size_t>(grid.ranks());
      Buffers own(ranks, std::vector<std::int64_t>(ranks, -1));
      std::vector<std::int64_t> all(ranks);
      for (std::size_t rank = 0; rank < ranks; ++rank)
        all[rank] = own[rank][rank] = static_cast<std::int64_t>(100 + rank);
      for (const auto& buffer : interpret(rounds, own)) CHECK(buffer == all);
    }
}

TEST_CASE("a broadcast leaves the root's chunks everywhere", "[sim][collectives]") {
  for (const int ranks : {2, 3, 4, 7, 8})
    for (const Rounds& rounds : {tree_broadcast(ranks), chain_broadcast(ranks, 6)})
      for (const auto& buffer : interpret(rounds, powers(rounds)))
        for (const std::int64_t value : buffer) CHECK(value == 1);
}

TEST_CASE("a reduce leaves the sum on the root", "[sim][collectives]") {
  for (const int ranks : {2, 3, 4, 7, 8})
    for (const Rounds& rounds : {tree_reduce(ranks), chain_reduce(ranks, 6)}) {
      const Buffers result = interpret(rounds, powers(rounds));
      for (const std::int64_t value : result[0]) CHECK(value == (std::int64_t{1} << ranks) - 1);
    }
}

TEST_CASE("an all-to-all brings chunk r of rank s to place s of rank r", "[sim][collectives]") {
  for (const int ranks : {2, 3, 4, 7, 8}) {
    const Rounds rounds = pairwise_all_to_all(ranks);
    Buffers buffers = powers(rounds);
    for (int from = 0; from < ranks; ++from)
      for (int to = 0; to < ranks; ++to)
        buffers[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)] = 100 * from + to;
    const Buffers result = interpret(rounds, buffers);
    for (int rank = 0; rank < ranks; ++rank)
      for (int from = 0; from < ranks; ++from)
        if (from != rank)
          CHECK(result[static_cast<std::size_t>(rank)][static_cast<std::size_t>(ranks + from)] ==
                100 * from + rank);
  }
}

TEST_CASE("a sampled all-to-all moves as many chunks as the whole one", "[sim][collectives]") {
  CHECK(total(chunks_sent(pairwise_all_to_all(40, 7))) ==
        total(chunks_sent(pairwise_all_to_all(40))));
}

TEST_CASE("every chunk sent is received, and rings send what theory says", "[sim][collectives]") {
  for (const Grid grid : grids) {
    const std::int64_t n = grid.ranks();
    // A rank sends n - 1 chunks in each of reduce-scatter and all-gather, also if the ring is cut
    // into two levels: (k - 1) H + (H - 1) = H k - 1. A tree sends all chunks over every edge, in
    // both directions.
    const Rounds ring = ring_all_reduce(grid.ranks()), levels = two_level_all_reduce(grid),
                 tree = tree_all_reduce(grid, 5), halving = halving_all_reduce(grid);
    CHECK(total(chunks_sent(ring)) == 2 * n * (n - 1));
    CHECK(total(chunks_sent(levels)) == 2 * n * (n - 1));
    CHECK(total(chunks_sent(tree)) == 2 * 10 * (n - 1));
    for (const Rounds& rounds : {ring, levels, tree, halving})
      CHECK(total(chunks_sent(rounds)) == total(chunks_received(rounds)));
    CHECK(total(chunks_sent(chain_all_reduce(grid.ranks(), 5))) == 2 * (n - 1) * 5);
  }
}

TEST_CASE("the busiest host of a tree sends the bytes once if there are two hosts, else twice",
          "[sim][collectives]") {
  for (const int hosts : {2, 4, 5, 7, 8, 16, 33}) {
    const std::vector<std::int64_t> sent = chunks_sent(tree_all_reduce({hosts, 1}, 5));
    CHECK(*std::max_element(sent.begin(), sent.end()) == (hosts == 2 ? 10 : 20));
    // Timing considers only the first hosts.
    CHECK(*std::max_element(sent.begin(), sent.begin() + std::min(hosts, 4)) ==
          *std::max_element(sent.begin(), sent.end()));
  }
}
