// A world of which only one rank exists. Its collectives and messages record what they were asked
// for, so that a rank's calls can be compared with its Program's instructions. Data from other
// ranks is zeros.
#pragma once

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "exec/comm/communicator.h"
#include "models/program/mesh.h"

namespace meshwright::tests {

struct CountedCall {
  GroupKind group = GroupKind::none;
  std::string what;         // "all_gather", ...
  std::int64_t amount = 0;  // bytes, or elements of sums: of one rank where each has a part
  std::string how;          // type, "flat", "adds", root; of messages the other rank
  bool operator==(const CountedCall&) const = default;
};

class CountingWorld : public World {
 public:
  CountingWorld(int rank, int size) : rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void* allocate(std::int64_t bytes) override {
    const auto rounded = static_cast<std::size_t>((bytes + 255) / 256 * 256 + 256);
    memory_.emplace_back(std::aligned_alloc(256, rounded), &std::free);
    return std::memset(memory_.back().get(), 0, rounded);
  }
  std::unique_ptr<Communicator> group(GroupKind kind, std::span<const int> ranks) override {
    return std::make_unique<Group>(*this, kind, std::vector<int>(ranks.begin(), ranks.end()));
  }
  std::int64_t resident_bytes_of_others() const override { return 0; }
  [[noreturn]] void abandon(int) override { std::abort(); }

  std::vector<CountedCall> calls;

 private:
  class Group : public Communicator {
   public:
    Group(CountingWorld& world, GroupKind kind, std::vector<int> ranks)
        : world_(world), kind_(kind), ranks_(std::move(ranks)) {
      while (ranks_.at(static_cast<std::size_t>(own_)) != world.rank()) ++own_;
    }
    int rank() const override { return own_; }
    int size() const override { return static_cast<int>(ranks_.size()); }
    void all_reduce(void*, std::int64_t elements, Dtype dtype, bool maximum) override {
      note("all_reduce", elements, text_of(dtype) + (maximum ? " maximum" : ""));
    }
    void all_gather(const void* own, void* all, std::int64_t bytes, bool flat) override {
      char* to = static_cast<char*>(all);
      std::memmove(to + own_ * bytes, own, static_cast<std::size_t>(bytes));
      for (int member = 0; member < size(); ++member)
        if (member != own_) clear(to + member * bytes, bytes);
      note("all_gather", bytes, flat ? "flat" : "");
    }
    void reduce_scatter(const void* whole, void* own, std::int64_t elements, Dtype dtype,
                        bool accumulate) override {
      const std::int64_t bytes = elements * bytes_of(dtype);
      if (!accumulate)
        std::memmove(own, static_cast<const char*>(whole) + own_ * bytes,
                     static_cast<std::size_t>(bytes));
      note("reduce_scatter", elements, text_of(dtype) + (accumulate ? " adds" : ""));
    }
    void all_to_all(const void* out, void* in, std::int64_t bytes) override {
      std::memmove(in, out, static_cast<std::size_t>(bytes * size()));
      note("all_to_all", bytes, "");
    }
    void broadcast(void* data, std::int64_t bytes, int root) override {
      if (root != own_) clear(data, bytes);
      note("broadcast", bytes, std::to_string(root));
    }
    void reduce(void*, std::int64_t elements, Dtype dtype, int root) override {
      note("reduce", elements, text_of(dtype) + " " + std::to_string(root));
    }
    void gather_apart(void* first, std::int64_t bytes, std::int64_t distance) override {
      for (int member = 0; member < size(); ++member)
        if (member != own_) clear(static_cast<char*>(first) + member * distance, bytes);
      note("gather_apart", bytes, "");
    }
    void reduce_apart(void*, std::int64_t elements, Dtype dtype, std::int64_t) override {
      note("reduce_apart", elements, text_of(dtype));
    }
    void barrier() override {}
    Request isend(const void*, std::int64_t bytes, int to, int) override {
      note("send", bytes, std::to_string(to));
      return 0;
    }
    Request irecv(void* data, std::int64_t bytes, int from, int) override {
      clear(data, bytes);
      note("recv", bytes, std::to_string(from));
      return 0;
    }
    bool test(Request) override { return true; }
    void wait(Request) override {}

   private:
    static void clear(void* data, std::int64_t bytes) {
      std::memset(data, 0, static_cast<std::size_t>(bytes));
    }
    static std::string text_of(Dtype dtype) { return std::to_string(static_cast<int>(dtype)); }
    void note(const char* what, std::int64_t amount, const std::string& how) {
      world_.calls.push_back({kind_, what, amount, how});
    }
    CountingWorld& world_;
    GroupKind kind_;
    std::vector<int> ranks_;
    int own_ = 0;
  };

  int rank_, size_;
  std::vector<std::unique_ptr<void, void (*)(void*)>> memory_;
};

}  // namespace meshwright::tests
