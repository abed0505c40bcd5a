// Packed sequences (models/program/graph/documents.h): documents are put into rows, and the rows of
// a step are ordered so that ranks have even work.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace meshwright::exec {

// A row of s tokens. Each has a target, or `ignored_target`, and the index at which its document
// begins.
struct PackedRow {
  std::vector<std::int32_t> tokens, targets, documents;

  // Appends a document of n tokens. It takes n - 1 positions, because its last token is only a
  // target. `counts` tells which of its tokens are to be learned.
  void append(std::span<const std::int32_t> document, std::span<const char> counts);
  // Fills the row up to `length` with token 0. Each padding token is a document of its own, so that
  // attention has no work there.
  void pad(std::int64_t length);
  // Fills the row from s + 1 neighbouring tokens, in which the token `end` is the last one of a
  // document. The document's last token has no target, because the next token belongs to another
  // document.
  void split(std::span<const std::int32_t> window, std::int32_t end);
  // Does the same as split() for documents that begin at 0 and at the ascending indices `begins`.
  void split_at(std::span<const std::int32_t> window, std::span<const std::int32_t> begins);

  std::int64_t counted() const;  // targets that are not ignored
  // Returns the work of attention: the sum of the squares of the documents' lengths.
  std::int64_t work() const;
};

constexpr std::int64_t packing_window = 1024;  // documents

// Returns the documents of each row. Of each window of `window` documents, the longest come first,
// each in the first row of that window that has room (first-fit decreasing). `places` holds the
// positions that each document takes, at most `length`.
std::vector<std::vector<std::int64_t>> pack_rows(std::span<const std::int64_t> places,
                                                 std::int64_t length,
                                                 std::int64_t window = packing_window);

// Returns an order of the rows of a step, which have the given `work`. The order is the same under
// every parallelism, but the blocks of neighbours that ranks and their micro-batches take have even
// work. The rows are dealt out to p equal groups, where p is the smallest prime factor of their
// number. The heaviest come first, each to the group with the least work that has room. The rows of
// each group are then ordered in the same way. So if a power of two of ranks divides the number of
// rows, each rank takes one of these groups.
std::vector<std::int64_t> balanced_order(std::span<const std::int64_t> work);

}  // namespace meshwright::exec
