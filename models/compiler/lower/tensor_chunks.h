// Products in chunks of their rows, such that what the tensor group sums, scatters or gathers goes
// on beside the product of another chunk (parallelism.tensor_chunks).
//
// Where every rank has a share of the rows, a chunk has as many rows of each share: a collective of
// parts that lie apart, and one product for each of them. All rows keep their places, and the order
// of a sum is that of the whole.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "models/compiler/lower/body_builder.h"

namespace meshwright {

struct Node;
struct StageDraft;

class TensorChunks {
 public:
  // Finds what is cut of the nodes of the body.
  TensorChunks(StageDraft& draft, BodyBuilder& body);

  // Writes a node in chunks, and those that go with it. Its last instruction; nothing: the node is
  // to be written whole.
  std::optional<int> write(int index);

 private:
  struct Whole {
    Instruction product;
    std::optional<Instruction> sum;       // of what it makes
    std::shared_ptr<const Fusion> parts;  // where its rows are in shares: one chunk's products
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
  std::map<int, std::vector<int>> readers_;   // of a tensor: nodes of the body
  std::map<int, int> sum_of_;                 // product -> the collective of what it makes
  std::map<int, std::vector<int>> group_of_;  // product -> those that are written together
  std::set<int> is_gathered_;                 // gathers that are cut
  std::set<int> reads_shares_;                // products of what they gather
  std::map<int, int> written_;                // node -> its last instruction
};

}  // namespace meshwright
