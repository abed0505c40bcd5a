// Splits matmuls into chunks of their rows, so that a collective of the tensor group on one chunk
// overlaps with the matmul of another chunk (parallelism.tensor_chunks).
//
// If every rank has a share of the rows, a chunk has an equal number of rows of each share. Its
// collective then works on separate parts, and it has one matmul for each of them. All rows keep
// their offsets, and sums are added in the same order as without chunks.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "models/compiler/lower/body_builder.h"

namespace meshwright::program {
struct Node;
}

namespace meshwright::compiler {

struct StageDraft;

class TensorChunks {
 public:
  // Finds which nodes of the body are split.
  TensorChunks(StageDraft& draft, BodyBuilder& body);

  // Writes a node in chunks, together with the nodes that are split with it. Returns the node's
  // last instruction, or nothing if the node is to be written whole. A node that is written already
  // is not written again.
  std::optional<int> write(int index);

 private:
  struct Whole {
    Instruction product;
    std::optional<Instruction> sum;  // the collective on its output, if that is split too
    // The body of one chunk's matmuls, one for each rank's share of the rows. Null if rows are not
    // in shares.
    std::shared_ptr<const Fusion> parts;
  };

  const Node& node(int index) const;
  bool divides(int tensor, bool in_shares) const;
  void find_sum(int product);
  void find_gather(int gather);
  int write_gather(int gather);
  void write_products(const std::vector<int>& products);
  Whole whole_of(int product) const;
  std::vector<Operand> shares_of(const Operand& all, int chunk) const;
  Instruction chunk_of(const Whole& whole, int chunk) const;
  Instruction sum_of(const Whole& whole, int chunk) const;

  StageDraft& draft_;
  BodyBuilder& body_;
  int ranks_, chunks_;
  std::map<int, std::vector<int>> readers_;  // tensor -> nodes of the body that read it
  std::map<int, int> sum_of_;                // matmul -> the collective on its output
  // Matmul -> the matmuls that are written together with it.
  std::map<int, std::vector<int>> group_of_;
  std::set<int> is_gathered_;   // gathers that are split
  std::set<int> reads_shares_;  // matmuls that read outputs of these gathers
  std::map<int, int> written_;  // node -> its last instruction
};

}  // namespace meshwright::compiler
