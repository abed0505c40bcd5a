// Packed sequences (models/program/graph/documents.h): documents are put into rows, and the rows of
// a step into an order in which ranks have even work.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace meshwright {

// A row of s tokens; each has a target, or `ignored_target`, and the place where its document
// begins.
struct PackedRow {
  std::vector<std::int32_t> tokens, targets, documents;

  // A document of n tokens takes n - 1 places: its last token is a target alone. `counts`: which of
  // its tokens are to be learned.
  void append(std::span<const std::int32_t> document, std::span<const char> counts);
  // Fills it up to `length` with token 0, each a document of its own: attention has no work there.
  void pad(std::int64_t length);
  // Of s + 1 neighbouring tokens, in which `end` is the last one of a document; the document's last
  // token has no target, for what follows is of another.
  void split(std::span<const std::int32_t> window, std::int32_t end);
  // The same where documents begin at `begins`, ascending, besides at 0.
  void split_at(std::span<const std::int32_t> window, std::span<const std::int32_t> begins);

  std::int64_t counted() const;  // targets
  // Of attention: the sum of squares of documents' lengths.
  std::int64_t work() const;
};

constexpr std::int64_t packing_window = 1024;  // documents

// Which documents each row has: of the next `window` of them the longest first, each in the first
// row that has room, in rows of their own (first-fit decreasing). `places`: of each document, at
// most `length`.
std::vector<std::vector<std::int64_t>> pack_rows(std::span<const std::int64_t> places,
                                                 std::int64_t length,
                                                 std::int64_t window = packing_window);

// The rows of a step, of so much work each, in an order that does not depend on how it is cut, but
// in which blocks of neighbours that ranks, and their micro-batches, take have even work: they are
// dealt out to p equal groups, the heaviest first, each to the group with the least work that has
// room; p is the smallest prime factor of their number; then those of each group in the same way.
// Blocks of a power of two of ranks (where it divides the number) are groups; others nearly so.
std::vector<std::int64_t> balanced_order(std::span<const std::int64_t> work);

}  // namespace meshwright
