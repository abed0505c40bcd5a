#include "tests/exec/lost_writes.h"

#include <filesystem>

#include "tests/catch.h"

namespace meshwright::tests {

namespace {

constexpr auto never = static_cast<std::size_t>(-1);

std::string name_of(const std::string& path) { return path.substr(path.rfind('/') + 1); }

}  // namespace

LostWrites::LostWrites(const Contents& before, const std::string& folder,
                       const std::vector<SystemCall>& calls)
    : root_(folder), begin_(1, Node{true, "", {}}), calls_(calls.size()) {
  for (const auto& [name, data] : before) {  // a folder comes before what is in it
    const bool is_folder = name.ends_with('/');
    const std::string path = root_ + "/" + (is_folder ? name.substr(0, name.size() - 1) : name);
    begin_[static_cast<std::size_t>(folder_of(begin_, path))].entries[name_of(path)] =
        static_cast<int>(begin_.size());
    begin_.push_back({is_folder, data, {}});
  }
  now_ = begin_;
  for (std::size_t i = 0; i < calls.size(); ++i)
    if (calls[i].good) add(calls[i], i);
}

int LostWrites::find(const Disk& disk, const std::string& path) const {
  int node = 0;
  for (const auto& part : std::filesystem::path(path).lexically_relative(root_)) {
    if (part == ".") continue;
    const auto& entries = disk[static_cast<std::size_t>(node)].entries;
    const auto found = entries.find(part.string());
    if (found == entries.end()) return -1;
    node = found->second;
  }
  return node;
}

int LostWrites::folder_of(const Disk& disk, const std::string& path) const {
  const int node = find(disk, path.substr(0, path.rfind('/')));
  REQUIRE(node >= 0);
  return node;
}

void LostWrites::make(Change change) {
  change.forced = never;
  apply(change, Fate::kept, now_);
  changes_.push_back(std::move(change));
}

void LostWrites::add(const SystemCall& call, std::size_t number) {
  Change change;
  change.call = number;
  change.name = name_of(call.path);
  change.offset = call.offset;
  if (call.name == "mkdir" || call.name == "open") {
    const int found = find(now_, call.path);
    if (found < 0) {
      if (call.name == "open" && !call.makes) return;
      change.kind = Change::Kind::entry;
      change.node = folder_of(now_, call.path);
      change.target = static_cast<int>(now_.size());
      for (Disk* disk : {&begin_, &now_}) disk->push_back({call.name == "mkdir", "", {}});
      make(change);
    } else if (call.makes) {
      change.kind = Change::Kind::size;
      change.node = found;
      make(change);
    }
    open_[call.path] = find(now_, call.path);
  } else if (call.name == "pwrite" || call.name == "write" || call.name == "ftruncate") {
    change.kind = call.name == "ftruncate" ? Change::Kind::size : Change::Kind::data;
    change.node = open_.at(call.path);
    change.bytes = call.data;
    REQUIRE(call.name != "write");  // needs the file's own offset
    make(change);
  } else if (call.name == "rename") {
    change.kind = Change::Kind::move;
    change.node = folder_of(now_, call.path);
    change.to = name_of(call.to);
    REQUIRE(change.node == folder_of(now_, call.to));
    make(change);
  } else if (call.name == "unlink" || call.name == "rmdir" || call.name == "remove") {
    change.kind = Change::Kind::entry;
    change.node = folder_of(now_, call.path);
    make(change);
  } else if (call.name == "fsync") {
    for (Change& each : changes_)
      if (each.node == open_.at(call.path) && each.forced == never) each.forced = number;
  }
}

void LostWrites::apply(const Change& change, Fate fate, Disk& disk) {
  if (fate == Fate::lost) return;
  Node& node = disk[static_cast<std::size_t>(change.node)];
  if (change.kind == Change::Kind::entry) {
    if (change.target >= 0)
      node.entries[change.name] = change.target;
    else
      node.entries.erase(change.name);
  } else if (change.kind == Change::Kind::move) {
    const auto found = node.entries.find(change.name);
    if (found == node.entries.end()) return;
    const int target = found->second;
    node.entries.erase(found);
    node.entries[change.to] = target;
  } else if (change.kind == Change::Kind::size) {
    node.data.resize(static_cast<std::size_t>(change.offset));
  } else {
    const std::size_t bytes = change.bytes.size() / (fate == Fate::torn ? 2 : 1);
    const auto offset = static_cast<std::size_t>(change.offset);
    node.data.resize(std::max(node.data.size(), offset + bytes));
    node.data.replace(offset, bytes, change.bytes, 0, bytes);
  }
}

std::size_t LostWrites::unforced(std::size_t calls) const {
  std::size_t count = 0;
  for (const Change& change : changes_) count += change.call < calls && change.forced >= calls;
  return count;
}

Contents LostWrites::left(std::size_t calls, const std::function<Fate(std::size_t)>& fate) const {
  Disk disk = begin_;
  std::size_t index = 0;
  for (const Change& change : changes_) {
    if (change.call >= calls) break;
    apply(change, change.forced < calls ? Fate::kept : fate(index++), disk);
  }
  Contents contents;
  const std::function<void(int, const std::string&)> list = [&](int at, const std::string& path) {
    for (const auto& [name, target] : disk[static_cast<std::size_t>(at)].entries) {
      const Node& node = disk[static_cast<std::size_t>(target)];
      contents[path + name + (node.is_folder ? "/" : "")] = node.data;
      if (node.is_folder) list(target, path + name + "/");
    }
  };
  list(0, "");
  return contents;
}

}  // namespace meshwright::tests
