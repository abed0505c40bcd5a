// Tests how ranks are started: the command line, and the messages when one of them fails.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "exec/comm/backoff.h"
#include "exec/comm/watchdog.h"
#include "exec/launch/hosts.h"
#include "exec/launch/memory_file.h"
#include "exec/launch/mpirun.h"
#include "exec/launch/restarts.h"
#include "exec/launch/run_folder.h"
#include "exec/launch/stop.h"
#include "exec/launch/watch.h"
#include "models/core/error.h"
#include "models/core/fields.h"
#include "tests/catch.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;

namespace {
const std::string rule(74, '-');

std::string joined(const std::vector<std::string>& words) {
  std::string line;
  for (const std::string& word : words) line += (line.empty() ? "" : " ") + word;
  return line;
}
// Returns the exit code of a process that does `work`. If the process stops itself, it continues
// after `stopped_s` seconds.
template <typename Work>
int ended_after(const Work& work, double stopped_s = 0) {
  const pid_t process = fork();
  if (process == 0) {
    const int null = open("/dev/null", O_WRONLY);
    dup2(null, STDERR_FILENO);
    work();
    _exit(0);
  }
  int status = 0;
  waitpid(process, &status, WUNTRACED);
  if (WIFSTOPPED(status)) {
    std::this_thread::sleep_for(std::chrono::duration<double>(stopped_s));
    kill(process, SIGCONT);
    waitpid(process, &status, 0);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

TEST_CASE("mpirun is told of root and of too many ranks only where it must be", "[exec][launch]") {
  const std::vector<std::string> program{"meshwright", "train", "a job.json"};
  using Words = std::vector<std::string>;
  CHECK(mpirun_command({2, 4, false, {}, {}}, program) ==
        Words{"mpirun", "-n", "2", "--use-hwthread-cpus", "--bind-to", "none", "--mca", "btl",
              "self,vader", "--mca", "oob_tcp_if_include", "lo", "meshwright", "train",
              "a job.json"});
  CHECK(mpirun_command({8, 4, true, {"-x", "A=b c"}, {}}, program) == Words{"mpirun",
                                                                            "-n",
                                                                            "8",
                                                                            "--use-hwthread-cpus",
                                                                            "--bind-to",
                                                                            "none",
                                                                            "--mca",
                                                                            "btl",
                                                                            "self,vader",
                                                                            "--mca",
                                                                            "oob_tcp_if_include",
                                                                            "lo",
                                                                            "--oversubscribe",
                                                                            "--mca",
                                                                            "mpi_yield_when_idle",
                                                                            "1",
                                                                            "--allow-run-as-root",
                                                                            "-x",
                                                                            "A=b c",
                                                                            "meshwright",
                                                                            "train",
                                                                            "a job.json"});
  CHECK(joined(mpirun_command({4, 4, false, {}, {}}, program)).find("--oversubscribe") ==
        std::string::npos);
  // An option that the user sets replaces the default.
  CHECK(joined(mpirun_command({1, 4, false, {"--mca", "btl", "tcp,self"}, {}}, program)) ==
        "mpirun -n 1 --use-hwthread-cpus --bind-to none --mca oob_tcp_if_include lo --mca btl "
        "tcp,self meshwright train a job.json");
}

TEST_CASE("the ranks' words pass through, mpirun's become one line", "[exec][launch]") {
  FailureWatch watch;
  CHECK(watch.add("warn") == "");
  CHECK(watch.add("ing: x\nprogress\r") == "warning: x\nprogress\r");
  CHECK(watch.add(rule + "\nPrimary job  terminated normally, but 1 process returned\n" + rule +
                  "\n") == "");
  CHECK(watch.add(rule +
                  "\nmpirun noticed that process rank 1 with PID 0 on node vm exited on "
                  "signal 9 (Killed).\n" +
                  rule + "\n") == "");
  const Verdict verdict = watch.verdict(137);
  CHECK(verdict.exit_code == 4);
  CHECK(verdict.shown == "rank 1 was killed by signal 9; the others were stopped\n");
}

TEST_CASE("mpirun's words in the middle of a rank's line are taken out of it", "[exec][launch]") {
  FailureWatch watch;
  CHECK(watch.add("  12  4.1") == "");
  CHECK(watch.add("mpirun: Forwarding signal 10 to job\n") == "");
  CHECK(watch.add("25\n  13  4.1") == "  12  4.125\n");
  CHECK(watch.add(rule + "\nPrimary job  terminated normally, but 1 process returned\n" + rule +
                  "\n") == "  13  4.1\n");
  CHECK(watch.add("24\n") == "24\n");
  CHECK(watch.verdict(0).shown.empty());
}

TEST_CASE("a rank's exit code becomes the run's", "[exec][launch]") {
  const auto verdict = [](int code) {
    FailureWatch watch;
    watch.add(rule +
              "\nmpirun detected that one or more processes exited with non-zero status\n\n" +
              "  Process name: [[17361,1],12]\n  Exit code:    " + std::to_string(code) + "\n" +
              rule + "\n");
    return watch.verdict(code);
  };
  CHECK(verdict(4).exit_code == 4);
  CHECK(verdict(4).shown == "rank 12 ended with exit code 4; the others were stopped\n");
  CHECK(verdict(2).exit_code == 2);
  CHECK(verdict(2).shown == "");
  CHECK(verdict(5).exit_code == 5);
  CHECK(verdict(77).exit_code == 4);
  CHECK(FailureWatch().verdict(0).exit_code == 0);
}

TEST_CASE("words that are not understood are shown", "[exec][launch]") {
  FailureWatch watch;
  CHECK(watch.add(rule + "\nThere are not enough slots\n" + rule + "\n") ==
        "There are not enough slots\n");
  CHECK(watch.verdict(1).exit_code == 4);
  CHECK(watch.verdict(1).shown == "mpirun could not start the ranks; what it said is above\n");
  CHECK(FailureWatch().verdict(137).shown ==
        "a rank was killed by signal 9; the others were stopped\n");
}

TEST_CASE("exit code 1 is ours only where a rank says so", "[exec][launch]") {
  const std::string paragraph =
      rule + "\nmpirun detected that one or more processes exited with non-zero status\n\n" +
      "  Process name: [[17361,1],0]\n  Exit code:    1\n" + rule + "\n";
  FailureWatch mpi, ours;
  mpi.add(paragraph);
  CHECK(mpi.verdict(1).exit_code == 4);
  ours.add("internal error: a map has no such key\n" + paragraph);
  CHECK(ours.verdict(1).exit_code == 1);
}

TEST_CASE("marks are heard and never shown, in whatever line they come", "[exec][launch]") {
  FailureWatch watch({"a", "b"});
  CHECK(watch.not_met(8) ==
        "waited 8 s: mpirun has not started ranks 0 and 1 on hosts a and b; all were stopped\n");
  CHECK(watch.add("  12  4.1\036started 0\n25\n") == "  12  4.125\n");
  CHECK(watch.not_met(8) ==
        "waited 8 s: mpirun has not started rank 1 on host b; all were stopped\n");
  CHECK(watch.add("\036started 1\n") == "");
  CHECK(watch.started() == 2);
  CHECK(watch.not_met(8) ==
        "waited 8 s: the ranks have started and have not met; all were stopped\n");
  CHECK(!watch.has_met());
  CHECK(watch.add(rule + "\nPrimary job\n\036met\n" + rule + "\n") == "");
  CHECK(watch.has_met());
  CHECK(!watch.last_word());
  CHECK(watch.add("\036ended 5\n") == "");
  CHECK(watch.last_word() == 5);
}

TEST_CASE("the first rank that fails says where; the others' words are kept back",
          "[exec][launch]") {
  FailureWatch watch({"", ""});
  CHECK(watch.add("\036trace 1 Traceback:\n\036trace 0 Traceback:\n\036trace 1   line 3\n") == "");
  CHECK(watch.add("rank 1 failed: KeyError: 'x'\n\036trace 0   line 7\nrank 0 failed: y\n") == "");
  CHECK(watch.verdict(4).shown == "Traceback:\n  line 3\nrank 1 failed: KeyError: 'x'\n");
}

TEST_CASE("a Slurm node list names hosts one by one", "[exec][launch]") {
  using Names = std::vector<std::string>;
  CHECK(hosts_of_slurm("gpu1") == Names{"gpu1"});
  CHECK(hosts_of_slurm("gpu[08-10,2],login") == Names{"gpu08", "gpu09", "gpu10", "gpu2", "login"});
  CHECK(hosts_of_slurm("r[1-2]n[3,4]") == Names{"r1n3", "r1n4", "r2n3", "r2n4"});
  for (const char* wrong :
       {"", "a b", "gpu[1-2", "gpu]1[", "gpu[x]", "gpu[-2]", "gpu[1-2-3]", "a,,b"})
    CHECK_THROWS_AS(hosts_of_slurm(wrong), InputError);
}

namespace {
// Runs a stand-in for mpirun over two hosts. Its function `ask` sends SIGTERM to this process, like
// a user who asks it to stop.
int run_stand_in(const std::string& script, double deadline_s) {
  Supervision two_hosts{"", {"a", "b"}, 0.1};
  two_hosts.deadline_s = deadline_s;
  return run_mpirun(
      {"sh", "-c",
       "ask() { kill -TERM $PPID; }; forever() { while :; do sleep 0.01; done; }; " + script},
      two_hosts);
}
constexpr double hours = 1e5;
}  // namespace

TEST_CASE("a request before the ranks have met ends the run with 5, whatever mpirun says",
          "[exec][launch]") {
  for (const char* code : {"0", "1", "4"}) {
    const std::string ends = "trap 'exit " + std::string(code) + "' TERM USR1; ";
    CHECK(run_stand_in(ends + "ask; forever", hours) == 5);
    CHECK(run_stand_in(ends + "printf '\\036started 0\\n' >&2; ask; forever", hours) == 5);
    CHECK(run_stand_in(ends + "ask; forever", 0) == 5);  // ranks that tell nothing
  }
}

TEST_CASE("a request is passed on to ranks that have met, and their last word counts",
          "[exec][launch]") {
  const std::string met = "printf '\\036met\\n' >&2; ";
  const auto obeys = [&](const std::string& action) {
    return run_stand_in("trap \"" + action + "\" USR1; " + met + "ask; forever", hours);
  };
  CHECK(obeys("printf '\\036ended 5\\n' >&2; exit 0") == 5);
  CHECK(obeys("printf '\\036ended 0\\n' >&2; exit 0") == 0);  // it was the last step
  CHECK(obeys("printf '\\036ended 4\\n' >&2; exit 0") == 4);  // the last save failed
  CHECK(obeys("exit 0") == 5);
  CHECK(obeys("exit 1") == 5);
  // The second request ends ranks that do not obey. It comes when the first one has arrived.
  CHECK(run_stand_in("trap 'exit 0' TERM; trap ask USR1; " + met + "ask; forever", hours) == 5);
}

TEST_CASE("after the last word neither a request nor an mpirun that fails changes how a run ended",
          "[exec][launch]") {
  const std::string last = "printf '\\036met\\n\\036ended 0\\n' >&2; ";
  CHECK(run_stand_in(last + "ask; exit 1", hours) == 0);
  CHECK(run_stand_in(last + "trap ask TERM; ask; exit 0", hours) == 0);
  CHECK(run_stand_in(last + "kill -KILL $$", hours) == 0);
}

TEST_CASE("the beginning and the end of a run have a deadline", "[exec][launch]") {
  CHECK(run_stand_in("forever", 0.1) == 4);                                  // nobody starts
  CHECK(run_stand_in("printf '\\036started 0\\n' >&2; forever", 0.1) == 4);  // nobody meets
  CHECK(run_stand_in("printf '\\036met\\n\\036ended 0\\n' >&2; forever", 0.1) == 0);  // nor leaves
  CHECK(run_stand_in("exit 0", hours) == 4);  // without a last word
}

TEST_CASE("a second request ends a process that does not look at the first", "[exec][launch]") {
  const auto asked_twice = [] {
    raise(SIGINT);
    if (!stop_requested()) _exit(77);
    usleep(300'000);  // one key press may arrive twice
    raise(SIGTERM);
    _exit(78);
  };
  CHECK(ended_after([&] {
          watch_for_stop();
          asked_twice();
        }) == 5);
  CHECK(ended_after([&] {
          watch_for_stop();
          have_last_word(0);
          asked_twice();
        }) == 0);
  CHECK(ended_after([] {
          end_on_stop_signals();
          raise(SIGTERM);
        }) == 5);
}

TEST_CASE("a launcher that is not there is an error with a way out", "[exec][launch]") {
  CHECK_THROWS_AS(run_mpirun({"/nowhere/mpirun", "-n", "1"}), RunError);
}

TEST_CASE("a command line has as many words as it needs", "[exec][launch]") {
  std::vector<std::string> command = {"sh", "-c", "test $# -eq 1000", "sh"};
  command.insert(command.end(), 1000, "word");
  CHECK(run_mpirun(command) == 0);
}

TEST_CASE("a launcher that outlives its ranks is ended", "[exec][launch]") {
  // The only child of this stand-in has ended, but it keeps waiting.
  CHECK(run_mpirun({"sh", "-c", "true & exec sleep 1000000"}) == 4);
}

TEST_CASE("a killed rank comes before the complaints of those that it left", "[exec][launch]") {
  FailureWatch watch;
  CHECK(watch.add("rank 0 failed: step 3: recv: MPI_Test: connection reset\n") == "");
  watch.add(rule +
            "\nmpirun noticed that process rank 2 with PID 0 on node b exited on signal 9\n" +
            rule + "\n");
  CHECK(watch.verdict(137).shown == "rank 2 was killed by signal 9; the others were stopped\n");
}

TEST_CASE("of ranks that fail by themselves the first is heard", "[exec][launch]") {
  FailureWatch watch;
  CHECK(watch.add("rank 3 failed: the disk is full\nrank 1 failed: MPI_Test: reset\n") == "");
  CHECK(watch.verdict(4).exit_code == 4);
  CHECK(watch.verdict(4).shown == "rank 3 failed: the disk is full\n");
}

TEST_CASE("who waited in vain is heard, and who did not answer is named", "[exec][launch]") {
  FailureWatch watch;
  const std::string first = "rank 0 failed: step 2: all_reduce: waited 9 s for ranks 1, 2 and 12\n";
  const std::string second = "rank 1 failed: step 2: recv: waited 9 s for rank 2\n";
  watch.add(first + second);
  CHECK(watch.verdict(4).shown ==
        first + second + "ranks 2 and 12 did not answer; all were stopped\n");
}

TEST_CASE("ranks are named with their hosts, and the network where they blame each other",
          "[exec][launch]") {
  const std::vector<std::string> hosts{"a", "a", "b", "b"};
  const auto last_line = [&](const std::vector<std::pair<int, std::string>>& waits) {
    FailureWatch watch(hosts);
    CHECK(!watch.has_failed());
    std::string said;
    for (const auto& [who, whom] : waits)
      said +=
          "rank " + std::to_string(who) + " failed: step 2: recv: waited 9 s for " + whom + "\n";
    CHECK(watch.add(said).empty());
    CHECK(watch.has_failed());
    const Verdict verdict = watch.verdict(4);
    CHECK(verdict.exit_code == 4);
    CHECK(verdict.shown.starts_with(said));
    return verdict.shown.substr(said.size());
  };
  CHECK(last_line({{0, "rank 2"}}) == "rank 2 on host b did not answer; all were stopped\n");
  CHECK(last_line({{0, "rank 2"}, {1, "rank 3"}}) ==
        "ranks 2 and 3 on host b did not answer; all were stopped\n");
  CHECK(last_line({{0, "rank 1"}, {2, "rank 3"}}) ==
        "ranks 1 and 3 on hosts a and b did not answer; all were stopped\n");
  const std::string lossy =
      "the hosts a and b waited for one another: the network between them loses what they send; "
      "all were stopped\n";
  CHECK(last_line({{0, "rank 2"}, {2, "rank 0"}}) == lossy);
  CHECK(last_line({{0, "rank 1"}, {1, "rank 2"}, {2, "rank 0"}}) == lossy);
  CHECK(last_line({{0, "rank 1"}, {1, "rank 0"}}) == "");  // of one host: no network
}

TEST_CASE("a rank that never comes is named by those that it leaves waiting", "[exec][launch]") {
  FailureWatch watch(std::vector<std::string>(4));
  const auto waiting = [](int rank) {
    return "rank " + std::to_string(rank) + " failed: meeting the other ranks took more than 9 s\n";
  };
  watch.add(waiting(0) + waiting(3));
  CHECK(watch.verdict(4).shown ==
        waiting(0) + waiting(3) + "ranks 1 and 2 did not answer; all were stopped\n");
}

TEST_CASE("a host that mpirun loses is a failed run, and said in a line", "[exec][launch]") {
  FailureWatch watch;
  CHECK(watch.add(rule + "\nORTE has lost communication with a remote daemon.\n\n" +
                  "  HNP daemon   : [[1,0],0] on node a\n  Remote daemon: [[1,0],1] on node b\n\n" +
                  "This is usually due\n" + rule + "\n") == "");
  CHECK(watch.has_failed());
  CHECK(watch.verdict(1).exit_code == 4);
  CHECK(watch.verdict(1).shown.starts_with("mpirun lost host b: "));
  FailureWatch away;
  CHECK(away.add(rule + "\nORTE does not know how to route a message to the specified daemon\n" +
                 "located on the indicated node:\n\n  my node:   a\n  target node:  b\n\n" + rule +
                 "\n") == "");
  CHECK(away.has_failed());
  CHECK(away.verdict(1).shown.starts_with("mpirun lost host b: "));
  FailureWatch start;
  const std::string words = "ORTE was unable to reliably start one or more daemons.\n";
  CHECK(start.add(rule + "\n" + words + rule + "\n") == words);
  CHECK(start.verdict(1).exit_code == 4);
}

TEST_CASE("every signal that ends a rank is a verdict", "[exec][launch]") {
  for (int signal = 1; signal < 32; ++signal) {
    FailureWatch watch;
    watch.add(rule +
              "\nmpirun noticed that process rank 1 with PID 0 on node vm exited on signal " +
              std::to_string(signal) + " (a word).\n" + rule + "\n");
    const Verdict verdict = watch.verdict(128 + signal),
                  unnamed = FailureWatch().verdict(128 + signal);
    CHECK(verdict.exit_code == (signal == SIGUSR1 ? 5 : signal == SIGABRT ? 1 : 4));
    CHECK(unnamed.exit_code == verdict.exit_code);
    if (signal == SIGUSR1) {
      CHECK(verdict.shown == "stopped on request, without a last report\n");
      continue;
    }
    const std::string said =
        " was killed by signal " + std::to_string(signal) + "; the others were stopped\n";
    CHECK(verdict.shown == "rank 1" + said);
    CHECK(unnamed.shown == "a rank" + said);
  }
}

TEST_CASE("a run is restarted after a fault only, and so often as allowed", "[exec][launch]") {
  const auto runs = [](int most, const std::vector<int>& codes) {
    std::size_t count = 0;
    const Restarts restarts{most, 0.001, 0.002};
    const int code = run_with_restarts(
        restarts,
        [&](int done) {
          CHECK(done == static_cast<int>(count));
          return codes.at(count++);
        },
        [] { return "step 1"; });
    return std::pair{code, count};
  };
  using Ended = std::pair<int, std::size_t>;
  CHECK(runs(0, {4}) == Ended{4, 1});
  CHECK(runs(3, {4, 4, 0}) == Ended{0, 3});
  CHECK(runs(2, {4, 4, 4}) == Ended{4, 3});
  for (int code : {0, 1, 2, 3, 5}) CHECK(runs(5, {code}) == Ended{code, 1});
}

TEST_CASE("pauses double up to the longest, and a request to stop ends them", "[exec][launch]") {
  const TestFolder folder;
  const std::string said = folder.file("said", "");
  const Restarts restarts{3, 0.001, 0.002};
  const auto from = [] { return "step 1"; };
  CHECK(ended_after([&] {
          dup2(open(said.c_str(), O_WRONLY), STDERR_FILENO);
          _exit(run_with_restarts(
              restarts, [](int) { return 4; }, from));
        }) == 4);
  CHECK(read_file(said) ==
        "the run failed; restart 1 of 3 from step 1 in 0.001 s\n"
        "the run failed; restart 2 of 3 from step 1 in 0.002 s\n"
        "the run failed; restart 3 of 3 from step 1 in 0.002 s\n"
        "the run failed; gave up after 3 restarts\n");
  CHECK(ended_after([&] {
          hold_stop_signals();
          const auto fail_once = [](int done) {
            if (done > 0) _exit(1);
            raise(SIGTERM);
            return 4;
          };
          _exit(run_with_restarts(restarts, fail_once, from));
        }) == 5);
}

TEST_CASE("an error that every rank finds is shown once", "[exec][launch]") {
  FailureWatch watch;
  CHECK(watch.add("error: a\nerror: a\nerror: b\n") == "error: a\nerror: b\n");
}

TEST_CASE("a deadline that is kept stops nothing", "[exec][launch]") {
  for (int i = 0; i < 10; ++i) const Watchdog watchdog(1e6, "setting up");
  SUCCEED();
}

TEST_CASE("a deadline that passes ends the process as a failed rank", "[exec][launch]") {
  CHECK(ended_after([] {
          const Watchdog watchdog(0.01, "setting up", 1);
          for (;;) pause();
        }) == 4);
  CHECK(ended_after([] {
          const std::function<void()> none = [] {};
          Backoff backoff(none, 0.01);
          while (backoff.pause()) {
          }
          _exit(4);
        }) == 4);
}

TEST_CASE("a process that was stopped has not waited meanwhile", "[exec][launch]") {
  constexpr double deadline_s = 0.8, longer_s = 1;
  CHECK(ended_after(
            [&] {
              const Watchdog watchdog(deadline_s, "setting up");
              usleep(50'000);  // now it waits
              raise(SIGSTOP);
              usleep(50'000);  // the deadline would have ended the process
            },
            longer_s) == 0);
  CHECK(ended_after(
            [&] {
              const std::function<void()> none = [] {};
              Backoff backoff(none, deadline_s);
              for (int i = 0; i < 1000; ++i)  // until pause() looks at the clock
                if (!backoff.pause()) _exit(1);
              raise(SIGSTOP);
              for (int i = 0; i < 10; ++i)
                if (!backoff.pause()) _exit(4);
            },
            longer_s) == 0);
}

TEST_CASE("a file in memory is what a child opens by its path, from the beginning each time",
          "[exec][launch]") {
  const MemoryFile file("settled");
  for (int i = 0; i < 2; ++i)
    CHECK(ended_after([&] {
            std::ifstream input(file.path());
            std::string word;
            _exit(input >> word && word == "settled" ? 0 : 1);
          }) == 0);
  CHECK(ended_after([&] { _exit(std::ofstream(file.path()) << "answer" << std::flush ? 0 : 1); }) ==
        0);
  CHECK(read_file(file.path()) == "answer");
}

TEST_CASE("the folder of a run is private, new, and gone with it", "[exec][launch]") {
  std::string path;
  {
    const RunFolder one, other;
    path = one.path();
    CHECK(path != other.path());
    struct stat state {};
    REQUIRE(stat(path.c_str(), &state) == 0);
    CHECK((state.st_mode & 07777) == 0700);
    CHECK(state.st_uid == geteuid());
    std::ofstream(path + "/kept") << "x";
  }
  CHECK(!std::filesystem::exists(path));
}

TEST_CASE("the folder of a killed launcher is gone when its mpirun is", "[exec][launch]") {
  const TestFolder folder;
  const std::string said = folder.file("said", ""), go_on = folder.file("go_on");
  // The launcher writes where its folder is and is killed. A child, as mpirun is, still makes files
  // there.
  CHECK(ended_after([&] {
          const RunFolder of_run;
          std::ofstream(said) << of_run.path() << std::flush;
          if (fork() == 0) {
            while (!std::filesystem::exists(go_on)) usleep(10'000);
            std::filesystem::create_directories(of_run.path() + "/late");
            _exit(0);
          }
          raise(SIGKILL);
        }) == -1);
  const std::string path = read_file(said);
  CHECK(std::filesystem::exists(path));
  folder.file("go_on", "");
  for (int tries = 0; std::filesystem::exists(path) && tries < 6000; ++tries) usleep(10'000);
  CHECK(!std::filesystem::exists(path));
}

TEST_CASE("what the ranks say is known after the patience, whatever mpirun waits for",
          "[exec][launch]") {
  const TestFolder folder;
  const std::string child = folder.file("child", ""), daemon = folder.file("daemon", "");
  const Supervision two_hosts{"", {"a", "b"}, 0.1};
  // The stand-in ignores SIGTERM. Its child and a daemon, which is nobody's child, hold the pipe.
  CHECK(run_mpirun({"sh", "-c",
                    "trap '' TERM; (sleep 1000 & echo $! >" + daemon + "); sleep 1000 & echo $! >" +
                        child +
                        "; echo 'rank 0 failed: step 1: waited 1 s for rank 1' >&2; wait; exec "
                        "sleep 1000"},
                   two_hosts) == 4);
  const auto runs = [](const std::string& file) {
    std::string name;
    std::ifstream("/proc/" + std::to_string(std::stoi(read_file(file))) + "/cmdline") >> name;
    return !name.empty();  // empty for a process that has ended
  };
  for (int tries = 0; runs(child) && tries < 1000; ++tries) usleep(10'000);
  CHECK(!runs(child));
  CHECK(runs(daemon));
  kill(std::stoi(read_file(daemon)), SIGKILL);
}

TEST_CASE("hosts of ranks follow the slots", "[exec][launch]") {
  MpirunOptions options{3, 2, false, {}, {}};
  CHECK(hosts_of_ranks(options) == std::vector<std::string>(3));
  options.remote = RemoteHosts{{{"a", 2}, {"b", 1}}, "", false, false, false, {}};
  CHECK(hosts_of_ranks(options) == std::vector<std::string>{"a", "a", "b"});
}

TEST_CASE("several hosts get the flags of SageMaker's containers", "[exec][launch]") {
  MpirunOptions options{4, 2, true, {}, {}};
  options.remote = RemoteHosts{{{"algo-1", 2}, {"algo-2", 2}}, "eth0", true, true, true, {"A=1"}};
  const std::vector<std::string> program{"meshwright", "train"};
  CHECK(joined(mpirun_command(options, program)) ==
        "mpirun --host algo-1:2,algo-2:2 -np 4 --allow-run-as-root -mca btl_tcp_if_include eth0 "
        "-mca oob_tcp_if_include eth0 -mca plm_rsh_no_tree_spawn 1 -bind-to none -map-by slot "
        "-mca pml ob1 -mca btl ^openib -mca orte_abort_on_non_zero_status 1 "
        "-mca btl_vader_single_copy_mechanism none -mca btl_tcp_links 2 -x NCCL_MIN_NRINGS=4 "
        "-x NCCL_SOCKET_IFNAME=eth0 -x NCCL_DEBUG=INFO -x NCCL_DEBUG_FILE=/dev/stderr "
        "-x FI_PROVIDER=efa -x FI_EFA_USE_DEVICE_RDMA=1 -x NCCL_PROTO=simple -x A=1 meshwright "
        "train");
  // One process per host needs no number of slots. Options that the user sets replace the defaults.
  options = {2, 2, false, {"--NCCL_DEBUG", "WARN", "-mca", "btl", "tcp,self"}, {}};
  options.remote = RemoteHosts{{{"a", 1}, {"b", 1}}, "", false, false, false, {}};
  CHECK(joined(mpirun_command(options, program)) ==
        "mpirun --host a,b -np 2 -mca plm_rsh_no_tree_spawn 1 -bind-to none -map-by slot "
        "-mca pml ob1 -mca orte_abort_on_non_zero_status 1 "
        "-mca btl_vader_single_copy_mechanism none -mca btl_tcp_links 2 -x NCCL_MIN_NRINGS=4 "
        "-x NCCL_DEBUG_FILE=/dev/stderr -x NCCL_DEBUG=WARN -mca btl tcp,self meshwright train");
}

TEST_CASE("a hostfile is read strictly", "[exec][launch]") {
  const TestFolder folder;
  const auto read = [&](const std::string& text) {
    return read_hostfile(folder.file("hosts", text));
  };
  CHECK(read("# two\nalgo-1 slots=8\n\n 10.0.0.2:4 max_slots=9 # the second\nthird\n") ==
        std::vector<RunHost>{{"algo-1", 8}, {"10.0.0.2", 4}, {"third", 1}});
  for (const char* wrong : {"", "a slots=0", "a slots=many", "a\na", "a b", "-x", "a;b", "a,b"})
    CHECK_THROWS_AS(read(wrong), InputError);
  CHECK_THROWS_AS(read_hostfile(folder.file("none")), InputError);
  CHECK(is_host_name("algo-1.x_y"));
  for (const char* wrong : {"", "-x", "a,c", "a b", "a;b", "a\nb"}) CHECK(!is_host_name(wrong));
}
