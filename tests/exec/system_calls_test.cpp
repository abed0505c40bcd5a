// Tests a fault at every system call of a save, of a resumption and of a log: it is reported, no
// valid data are lost, and the next attempt works.
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <functional>

#include "exec/checkpoint/folder.h"
#include "exec/launch/children.h"
#include "exec/log/growing_file.h"
#include "models/core/error.h"
#include "tests/catch.h"
#include "tests/exec/saved_scene.h"
#include "tests/exec/system_calls.h"
#include "tests/one_in.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;
namespace fs = std::filesystem;

namespace {

// Returns whether a call may fail without a report: its work is done already, or it is repeated.
bool may_fail_in_silence(const SystemCall& call, int error) {
  return call.name == "close" || (call.name == "open" && error == EMFILE);
}

std::string described(const std::vector<SystemCall>& calls, std::size_t at) {
  return at < calls.size() ? calls[at].name + " " + calls[at].path : "no call";
}

// Runs `work` in a process of its own, which a fault may kill. Returns whether it was killed.
bool is_killed(const std::string& folder, const Fault& fault, const std::function<void()>& work) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const WatchedCalls watched(folder, fault);
    work();
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

}  // namespace

TEST_CASE("a fault at any call of a save", "[faults]") {
  SavedScene scene;
  // Tries every call with every error, or each call with one of the errors in turn.
  std::size_t first = 0;
  for (const int error : {EIO, ENOSPC, EACCES, ESTALE, EMFILE}) {
    for (std::size_t at = all_are_tried() ? 0 : first++;;
         at += static_cast<std::size_t>(one_in(5))) {
      const TestFolder folder;
      scene.begin(folder.path());
      std::vector<std::string> said;
      std::vector<SystemCall> calls;
      bool saved = false;
      {
        Saver saver(folder.path(), 2, scene.run.runtime, *scene.run.all,
                    [&](const std::string& line) { said.push_back(line); });
        const WatchedCalls watched(folder.path(), {Fault::Kind::error, at, error});
        saver.save(scene.run.about(3));
        saved = saver.finish();
        calls = watched.seen();
      }
      INFO("call " << at << ": " << described(calls, at) << ": " << std::strerror(error));
      if (saved) {
        CHECK(scene.holds(folder.path(), 2));
        CHECK(scene.holds(folder.path(), 3));
        CHECK(scene.newest(folder.path()) == 3);
      } else {
        CHECK(scene.holds(folder.path(), 1));
        CHECK(scene.holds(folder.path(), 2));
        const std::int64_t newest = scene.newest(folder.path());
        CHECK((newest == 2 || newest == 3));
        CHECK(scene.holds(folder.path(), newest));
      }
      if (at >= calls.size()) {
        CHECK(saved);
        CHECK(said.empty());
        CHECK(at > 20);
        break;
      }
      if (said.empty()) {
        CHECK(saved);
        CHECK(may_fail_in_silence(calls[at], error));
      } else {
        REQUIRE(said.size() == 1);
        CHECK(said[0].find(saved ? "checkpoint of step 3 is saved, but older ones stay: "
                                 : "checkpoint of step 3 was NOT saved: ") == 0);
        CHECK(said[0].find(std::strerror(error)) != std::string::npos);
      }
      scene.check_next_save(folder.path());
    }
  }
}

TEST_CASE("a process killed at any call of a save", "[faults]") {
  SavedScene scene;
  for (const Fault::Kind kind : {Fault::Kind::kill, Fault::Kind::tear})
    for (std::size_t at = 0;; ++at) {
      const TestFolder folder;
      scene.begin(folder.path());
      const bool killed = is_killed(folder.path(), {kind, at}, [&] {
        Saver saver(folder.path(), 2, scene.run.runtime, *scene.run.all, [](const std::string&) {});
        saver.save(scene.run.about(3));
        saver.finish();
      });
      INFO("call " << at);
      const std::int64_t newest = scene.newest(folder.path());
      CHECK((newest == 2 || newest == 3));
      CHECK(scene.holds(folder.path(), newest));
      CHECK(scene.holds(folder.path(), 2));
      if (!killed) {
        CHECK(newest == 3);
        CHECK(at > 20);
        break;
      }
      remove_part_folders(folder.path());  // as the next run begins
      CHECK(scene.newest(folder.path()) == newest);
      scene.check_next_save(folder.path());
    }
}

TEST_CASE("a fault at any call of a resumption", "[faults]") {
  SavedScene scene;
  const TestFolder folder;
  scene.begin(folder.path());
  const Contents before = contents_of(folder.path());
  for (const int error : {EIO, EACCES, ESTALE, EMFILE, ENOMEM})
    for (std::size_t at = 0;; ++at) {
      std::vector<SystemCall> calls;
      std::string said;
      std::int64_t step = -1;
      {
        const WatchedCalls watched(folder.path(), {Fault::Kind::error, at, error});
        try {
          step = scene.newest(folder.path());
        } catch (const RunError& failure) {
          said = failure.what();
        }
        calls = watched.seen();
      }
      INFO("call " << at << ": " << described(calls, at) << ": " << std::strerror(error));
      CHECK(contents_of(folder.path()) == before);
      if (at >= calls.size()) {
        CHECK(step == 2);
        CHECK(at > 10);
        break;
      }
      if (said.empty()) {
        CHECK(step == 2);
        CHECK(may_fail_in_silence(calls[at], error));
      } else {
        CHECK(said.find(folder.path()) == 0);
        CHECK(said.find(std::strerror(error)) != std::string::npos);
        CHECK(said.find("make it readable, or ") != std::string::npos);
      }
    }
  CHECK(scene.newest(folder.path()) == 2);
}

TEST_CASE("an interrupted or short call of a save or a resumption goes on", "[faults]") {
  SavedScene scene;
  const TestFolder folder;
  scene.begin(folder.path());
  std::vector<SystemCall> calls;
  const auto save_and_resume = [&](const Fault& fault) {
    const WatchedCalls watched(folder.path(), fault);
    scene.run.save(folder.path(), 3);
    CHECK(scene.newest(folder.path()) == 3);
    calls = watched.seen();
    fs::remove_all(step_folder(folder.path(), 3));
  };
  save_and_resume({});
  const std::vector<SystemCall> all = calls;
  for (std::size_t at = 0; at < all.size(); ++at)
    if (all[at].name == "pread" || all[at].name == "pwrite")
      save_and_resume({Fault::Kind::error, at, EINTR});
}

TEST_CASE("a fault at any call of taking a folder's lock", "[faults]") {
  for (const int error : {EIO, ENOSPC, EACCES, EMFILE, ENOLCK})
    for (std::size_t at = 0;; ++at) {
      const TestFolder folder;
      std::vector<SystemCall> calls;
      std::string said;
      {
        const WatchedCalls watched(folder.path(), {Fault::Kind::error, at, error});
        try {
          const FolderLock lock(folder.path() + "/saved");
          calls = watched.seen();
        } catch (const InputError& failure) {
          said = failure.what();
          calls = watched.seen();
        }
      }
      INFO("call " << at << ": " << described(calls, at) << ": " << std::strerror(error));
      if (at >= calls.size()) {
        CHECK(said.empty());
        break;
      }
      const std::string& name = calls[at].name;  // the lock's content is only for people
      if (said.empty()) {
        CHECK((name == "pwrite" || name == "ftruncate" || name == "close"));
      } else {
        CHECK(said.find(folder.path() + "/saved: no checkpoint can be written there: ") == 0);
        CHECK(said.find(std::strerror(error)) != std::string::npos);
      }
      const FolderLock again(folder.path() + "/saved");
    }
}

TEST_CASE("a process that ends while its parent is asked for its children is no error",
          "[faults]") {
  const pid_t child = fork();
  if (child == 0) {
    for (;;) pause();
  }
  std::size_t failed_reads = 0;
  for (const int error : {ESRCH, EIO})
    for (std::size_t at = 0;; ++at) {
      const WatchedCalls calls("/proc", {Fault::Kind::error, at, error});
      CHECK_NOTHROW(children_of(getpid()));
      const std::vector<SystemCall> seen = calls.seen();
      if (at >= seen.size()) break;
      failed_reads += seen[at].name == "read" ? 1 : 0;
    }
  CHECK(failed_reads > 0);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
}

TEST_CASE("a fault at any call of a log", "[faults]") {
  const TestFolder folder;
  const std::string path = folder.path() + "/logs/steps.jsonl";
  const auto write_log = [&] {
    GrowingFile file = GrowingFile::append_lines(path);
    for (const std::string line : {"two\n", "three\n"}) file.add(line);
  };
  for (const std::string tail : {"no file", "", "torn"}) {
    const std::string first = tail == "no file" ? "" : "one\n";
    const auto begin = [&] {
      fs::remove_all(folder.path() + "/logs");
      if (tail == "no file") return;
      fs::create_directory(folder.path() + "/logs");
      write_content(path, first + tail);
    };
    // Checks the file after the next run appends to it: all lines are whole, and the first ones are
    // all there.
    const auto check_left = [&] {
      GrowingFile::append_lines(path).add("four\n");
      const std::string left = content_of(path);
      CHECK((left == first + "four\n" || left == first + "two\nfour\n" ||
             left == first + "two\nthree\nfour\n"));
    };
    for (const int error : {EIO, ENOSPC, EDQUOT, EROFS, EINTR})
      for (std::size_t at = 0;; ++at) {
        begin();
        std::vector<SystemCall> calls;
        std::string said;
        {
          const WatchedCalls watched(folder.path(), {Fault::Kind::error, at, error});
          try {
            write_log();
          } catch (const RunError& failure) {
            said = failure.what();
          }
          calls = watched.seen();
        }
        INFO("call " << at << ": " << described(calls, at) << ": " << std::strerror(error));
        if (said.empty())
          CHECK(content_of(path) == first + "two\nthree\n");
        else
          CHECK(said.find(path) == 0);
        check_left();
        if (at < calls.size()) continue;
        CHECK(said.empty());
        break;
      }
    for (std::size_t at = 0;; ++at) {
      begin();
      if (!is_killed(folder.path(), {Fault::Kind::tear, at}, write_log)) break;
      check_left();
    }
  }
}
