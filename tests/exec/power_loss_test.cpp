// Tests that if the power fails during a save, the old or the new checkpoint is there and complete,
// whichever writes the disk has lost. Once the save is reported, the new one is there.
#include <filesystem>
#include <random>
#include <unordered_set>

#include "exec/checkpoint/folder.h"
#include "tests/catch.h"
#include "tests/exec/lost_writes.h"
#include "tests/exec/saved_scene.h"
#include "tests/exec/system_calls.h"
#include "tests/one_in.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;
namespace fs = std::filesystem;
using Fate = LostWrites::Fate;

namespace {

void write_contents(const std::string& folder, const Contents& contents) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const auto& [name, data] : contents)
    if (name.ends_with('/'))
      fs::create_directories(folder + "/" + name);
    else
      write_content(folder + "/" + name, data);
}

std::string text_of(const Contents& contents) {
  std::string text;
  for (const auto& [name, data] : contents) text += name + "\n" + data + "\n";
  return text;
}

// Calls `check` with each different state that the disk may be left in, and whether all calls were
// made. Unforced changes are lost or kept in every way that matters most: all, none, the first n,
// all but one, one alone, one torn, and some at random.
template <typename Check>
int for_each_state(const LostWrites& disk, const Check& check) {
  std::unordered_set<std::string> seen;
  std::mt19937 random(1);
  for (std::size_t calls = 0; calls < disk.crash_points(); ++calls) {
    const bool all = calls + 1 == disk.crash_points();
    if (all) seen.clear();  // `check` asks more of these states
    const auto try_it = [&](const std::function<Fate(std::size_t)>& fate) {
      const Contents state = disk.left(calls, fate);
      if (seen.insert(text_of(state)).second) check(state, all);
    };
    const auto kept_if = [&](const auto& is_kept) {
      try_it([&](std::size_t i) { return is_kept(i) ? Fate::kept : Fate::lost; });
    };
    const std::size_t changes = disk.unforced(calls);
    kept_if([](std::size_t) { return true; });
    kept_if([](std::size_t) { return false; });
    for (int i = 0; i < 4; ++i) kept_if([&](std::size_t) { return random() % 2 == 0; });
    // Many changes are only data of a shard that has no name yet, so only the last few are tried
    // one by one.
    const auto last = static_cast<std::size_t>(12 / one_in(3));
    for (std::size_t one = changes > last ? changes - last : 0; one < changes; ++one) {
      kept_if([&](std::size_t i) { return i < one; });
      kept_if([&](std::size_t i) { return i != one; });
      kept_if([&](std::size_t i) { return i == one; });
      try_it([&](std::size_t i) { return i == one ? Fate::torn : Fate::kept; });
    }
  }
  return static_cast<int>(seen.size());
}

std::vector<SystemCall> calls_of_save(SavedScene& scene, const std::string& folder, int keep) {
  const WatchedCalls watched(folder);
  scene.run.save(folder, 3, keep);
  return watched.seen();
}

}  // namespace

TEST_CASE("what a save makes is on the disk before it gets its name", "[faults]") {
  SavedScene scene;
  const TestFolder folder;
  scene.begin(folder.path());
  std::vector<std::string> order;
  for (const SystemCall& call : calls_of_save(scene, folder.path(), 2)) {
    const bool changes = call.name == "mkdir" || call.name == "pwrite" || call.name == "fsync" ||
                         call.name == "rename" || call.name == "remove" || call.makes;
    if (!changes) continue;
    const auto relative = [&](const std::string& path) {
      return fs::path(path).lexically_relative(folder.path()).string();
    };
    std::string line = call.name + " " + relative(call.path);
    if (!call.to.empty()) line += " " + relative(call.to);
    if (order.empty() || order.back() != line) order.push_back(line);
  }
  const std::string part = "step-00000003.part", shard = part + "/rank-00000.shard",
                    manifest = part + "/manifest.json";
  CHECK(order == std::vector<std::string>{"mkdir " + part, "fsync .", "open " + shard,
                                          "pwrite " + shard, "fsync " + shard, "open " + manifest,
                                          "pwrite " + manifest, "fsync " + manifest,
                                          "fsync " + part, "rename " + part + " step-00000003",
                                          "fsync .", "rename step-00000001 step-00000001.part",
                                          "remove step-00000001.part"});
}

TEST_CASE("the power fails during a save", "[faults]") {
  SavedScene scene;
  const TestFolder folder, after;
  scene.begin(folder.path());
  const Contents before = contents_of(folder.path());
  const LostWrites disk(before, folder.path(), calls_of_save(scene, folder.path(), 2));
  CHECK(disk.left(disk.crash_points() - 1, [](std::size_t) { return Fate::kept; }) ==
        contents_of(folder.path()));
  int old = 0, fresh = 0;
  for_each_state(disk, [&](const Contents& state, bool all) {
    write_contents(after.path(), state);
    const std::int64_t newest = scene.newest(after.path());
    CHECK((newest == 3 || (newest == 2 && !all)));
    CHECK(scene.holds(after.path(), newest));
    CHECK(scene.holds(after.path(), 2));
    ++(newest == 3 ? fresh : old);
  });
  CHECK(old > 50);
  CHECK(fresh > 2);
}

TEST_CASE("the power fails while a damaged checkpoint is replaced", "[faults]") {
  SavedScene scene;
  const TestFolder folder, after;
  scene.begin(folder.path());
  fs::copy(step_folder(folder.path(), 2), step_folder(folder.path(), 3));
  fs::resize_file(step_folder(folder.path(), 3) + "/manifest.json", 100);
  const Contents before = contents_of(folder.path());
  const LostWrites disk(before, folder.path(), calls_of_save(scene, folder.path(), 3));
  for_each_state(disk, [&](const Contents& state, bool all) {
    write_contents(after.path(), state);
    const std::int64_t newest = scene.newest(after.path(), true);
    CHECK((newest == 3 || (newest == 2 && !all)));
    CHECK(scene.holds(after.path(), newest));
  });
}

TEST_CASE("the power fails during the first save of a new folder", "[faults]") {
  SavedScene scene;
  const TestFolder folder, after;
  const std::string place = folder.path() + "/runs/saved";
  std::vector<SystemCall> calls;
  {
    const WatchedCalls watched(folder.path());
    const FolderLock lock(place);
    scene.run.save(place, 3);
    calls = watched.seen();
  }
  for_each_state(LostWrites({}, folder.path(), calls), [&](const Contents& state, bool all) {
    write_contents(after.path(), state);
    const std::int64_t newest = scene.newest(after.path() + "/runs/saved");
    CHECK((newest == 3 || (newest == -1 && !all)));
    if (newest == 3) CHECK(scene.holds(after.path() + "/runs/saved", 3));
  });
}
