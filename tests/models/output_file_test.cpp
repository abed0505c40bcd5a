// Tests how the program writes files. A regular file is replaced as a whole or stays unchanged.
// Everything else is written through or rejected.
#include "models/core/output_file.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "tests/catch.h"
#include "tests/message_of.h"
#include "tests/test_folder.h"

using namespace meshwright::tests;
namespace fs = std::filesystem;

namespace {

void write(const std::string& path, const std::string& text) {
  OutputFile file(path);
  file.write(text);
  file.finish();
}

std::string refusal(const std::string& path) {
  const std::string message = message_of([&] { output_place(path); });
  CHECK(message_of([&] { write(path, "x"); }) == message);
  REQUIRE(message.starts_with(path + ": "));
  return message.substr(path.size() + 2);
}

mode_t mode_of(const std::string& path) {
  struct stat status {};
  REQUIRE(lstat(path.c_str(), &status) == 0);
  return status.st_mode;
}

}  // namespace

TEST_CASE("an output replaces a file as a whole, and keeps its permissions", "[models][output]") {
  const TestFolder folder;
  const mode_t mask = umask(027);
  write(folder.file("new"), "one");
  umask(mask);
  CHECK((mode_of(folder.file("new")) & 0777) == 0640);
  REQUIRE(chmod(folder.file("new").c_str(), 0604) == 0);
  {
    OutputFile file(folder.file("new"));
    file.write("two");
    CHECK(content_of(folder.file("new")) == "one");
    REQUIRE(folder.names().size() == 2);  // the part file has a name of its own
    file.rewrite_begin("T");
    file.finish();
  }
  CHECK(content_of(folder.file("new")) == "Two");
  CHECK((mode_of(folder.file("new")) & 0777) == 0604);
  CHECK(folder.names() == std::vector<std::string>{"new"});
  write(folder.file("a/b/c"), "deep");
  CHECK(content_of(folder.file("a/b/c")) == "deep");
}

TEST_CASE("an output that is not finished leaves the old file and nothing else",
          "[models][output]") {
  const TestFolder folder;
  folder.file("old", "old");
  { OutputFile(folder.file("old")).write("new"); }
  CHECK(content_of(folder.file("old")) == "old");
  CHECK(folder.names() == std::vector<std::string>{"old"});
  // A limit on the size of files simulates a full disk.
  rlimit limit{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) == 0);
  const rlimit little{3, limit.rlim_max};
  const auto before = signal(SIGXFSZ, SIG_IGN);
  REQUIRE(setrlimit(RLIMIT_FSIZE, &little) == 0);
  const std::string message = message_of([&] { write(folder.file("old"), "too long"); });
  setrlimit(RLIMIT_FSIZE, &limit);
  signal(SIGXFSZ, before);
  CHECK(message == folder.file("old") + ": cannot be written: File too large");
  CHECK(content_of(folder.file("old")) == "old");
  CHECK(folder.names() == std::vector<std::string>{"old"});
}

TEST_CASE("the part file's name cannot be foreseen", "[models][output]") {
  const TestFolder folder;
  folder.file("victim", "kept");
  for (const char* planted : {"report.part", ".report.part"})
    fs::create_symlink("victim", folder.file(planted));
  std::vector<std::string> parts;
  for (int i = 0; i < 2; ++i) {
    OutputFile file(folder.file("report"));
    for (const std::string& name : folder.names())
      if (name.starts_with(".meshwright-")) parts.push_back(name);
    file.write("report");
    file.finish();
  }
  CHECK(content_of(folder.file("victim")) == "kept");
  CHECK(content_of(folder.file("report")) == "report");
  REQUIRE(parts.size() == 2);
  CHECK(parts[0] != parts[1]);
}

TEST_CASE("a link stays, and the file to which it leads is replaced", "[models][output]") {
  const TestFolder folder;
  fs::create_directory(folder.file("below"));
  folder.file("below/file", "old");
  fs::create_symlink("below/file", folder.file("one"));
  fs::create_symlink(folder.file("one"), folder.file("two"));
  write(folder.file("two"), "new");
  CHECK(content_of(folder.file("below/file")) == "new");
  CHECK(fs::read_symlink(folder.file("one")) == "below/file");
  CHECK(fs::is_symlink(folder.file("two")));
  fs::create_symlink("below/made", folder.file("dangling"));
  write(folder.file("dangling"), "made");
  CHECK(content_of(folder.file("below/made")) == "made");
  CHECK(fs::is_symlink(folder.file("dangling")));
  fs::create_symlink("round", folder.file("round"));
  CHECK(refusal(folder.file("round")) == "its links lead in a circle; name a file");
  CHECK(fs::is_symlink(folder.file("round")));
  fs::create_symlink("below", folder.file("folder"));
  CHECK(refusal(folder.file("folder")) == "is a folder; name a file in it");
  CHECK(fs::directory_iterator(folder.file("below")) != fs::directory_iterator());
}

TEST_CASE("a link that others put into a shared folder is not followed", "[models][output]") {
  const TestFolder folder;
  folder.file("victim", "kept");
  fs::create_directory(folder.file("shared"));
  REQUIRE(chmod(folder.file("shared").c_str(), 01777) == 0);
  const std::string link = folder.file("shared/report");
  fs::create_symlink("../victim", link);
  write(link, "own");
  CHECK(content_of(folder.file("victim")) == "own");
  constexpr uid_t somebody = 65534;
  if (geteuid() == somebody || lchown(link.c_str(), somebody, somebody) != 0) {
    WARN("skipped: no link can be given away here");
    return;
  }
  const std::string refused = refusal(link);
  CHECK((refused ==
             "is a link of somebody else in a folder that all may write to; name another file" ||
         refused == "cannot be written: Permission denied"));  // the system's own rule
  CHECK(content_of(folder.file("victim")) == "own");
}

TEST_CASE("what another process has open is not replaced", "[models][output]") {
  const TestFolder folder;
  folder.file("file", "kept");
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  if (child == 0) {
    const int file = open(folder.file("file").c_str(), O_RDWR);
    if (::write(ends[1], &file, sizeof file) > 0) pause();
    _exit(0);
  }
  int file = -1;
  REQUIRE(read(ends[0], &file, sizeof file) == sizeof file);
  const std::string name = "/proc/" + std::to_string(child) + "/fd/" + std::to_string(file);
  CHECK(refusal(name) == "is open in another process; name the file itself");
  CHECK(content_of(folder.file("file")) == "kept");
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("another name of a replaced file keeps what it had", "[models][output]") {
  const TestFolder folder;
  folder.file("one", "old");
  fs::create_hard_link(folder.file("one"), folder.file("other"));
  write(folder.file("one"), "new");
  CHECK(content_of(folder.file("one")) == "new");
  CHECK(content_of(folder.file("other")) == "old");
}

TEST_CASE("devices are written through", "[models][output]") {
  const TestFolder folder;
  write("/dev/null", "nothing");
  CHECK(S_ISCHR(mode_of("/dev/null")));
  fs::create_symlink("/dev/null", folder.file("link"));
  write(folder.file("link"), "nothing");
  CHECK(fs::is_symlink(folder.file("link")));
  CHECK(S_ISCHR(mode_of("/dev/null")));
  CHECK(message_of([] { write("/dev/full", "x"); }) ==
        "/dev/full: cannot be written: No space left on device");
  CHECK(S_ISCHR(mode_of("/dev/full")));
  const std::string own = folder.file("own");
  if (mknod(own.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0)
    WARN("skipped: no device may be made here");
  else if (message_of([&] { write(own, "nothing"); }).empty())
    CHECK(S_ISCHR(mode_of(own)));
  else
    WARN("skipped: devices cannot be opened in " << folder.path());
  CHECK((access(own.c_str(), F_OK) != 0 || S_ISCHR(mode_of(own))));
  const std::string disk = folder.file("disk");
  if (mknod(disk.c_str(), S_IFBLK | 0600, makedev(7, 250)) != 0)
    WARN("skipped: no disk may be made here");
  else
    CHECK(refusal(disk) == "is a disk; name a file");
}

TEST_CASE("pipes are written through while somebody reads them", "[models][output]") {
  const TestFolder folder;
  const std::string pipe = folder.file("pipe");
  REQUIRE(mkfifo(pipe.c_str(), 0600) == 0);
  const std::string text(1 << 20, 'x');  // more than a pipe holds
  int end = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  std::string got;
  {
    OutputFile file(pipe);
    std::thread reader([&] {
      fcntl(end, F_SETFL, O_RDONLY);
      char some[4096];
      for (ssize_t n; (n = read(end, some, sizeof some)) > 0;)
        got.append(some, static_cast<std::size_t>(n));
    });
    file.write(text);
    file.finish();
    reader.join();
  }
  close(end);
  CHECK(got == text);
  CHECK(S_ISFIFO(mode_of(pipe)));
  // If the reader of a pipe closes it, write() throws, and the process does not end.
  end = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  CHECK(message_of([&] {
          OutputFile file(pipe);
          file.write("x");
          close(end);
          file.write("y");
        }) == pipe + ": cannot be written: Broken pipe");
  CHECK(message_of([&] { write(pipe, text); }) ==
        pipe +
            ": is a pipe that nobody has opened for reading within 10 s; start its reader first");
  CHECK(folder.names() == std::vector<std::string>{"pipe"});
}

TEST_CASE("a file that the process has open is written at its current position",
          "[models][output]") {
  const TestFolder folder;
  const std::string path = folder.file("log", "");
  const int file = open(path.c_str(), O_RDWR);
  const std::string name = "/dev/fd/" + std::to_string(file);
  REQUIRE(::write(file, "one ", 4) == 4);
  write(name, "two ");
  write("/proc/self/fd/" + std::to_string(file), "three ");
  fs::create_symlink(name, folder.file("link"));
  write(folder.file("link"), "four");
  CHECK(content_of(path) == "one two three four");
  CHECK(fs::is_symlink(folder.file("link")));
  close(file);
  CHECK(refusal(name) == "is not open; name a file");
  const int input = open(path.c_str(), O_RDONLY);
  CHECK(refusal("/dev/fd/" + std::to_string(input)) == "is open for reading only; name a file");
  close(input);
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  write("/dev/fd/" + std::to_string(ends[1]), "through");
  char got[8] = {};
  CHECK(read(ends[0], got, sizeof got) == 7);
  close(ends[0]);
  close(ends[1]);
}

TEST_CASE("what must not be written is refused, and stays", "[models][output]") {
  const TestFolder folder;
  CHECK(refusal(folder.path()) == "is a folder; name a file in it");
  CHECK(refusal(folder.file("new/")) == "is a folder; name a file in it");
  folder.file("file", "kept");
  CHECK(refusal(folder.file("file/below")) == "nothing can be written in " + folder.file("file"));
  REQUIRE(chmod(folder.file("file").c_str(), 0444) == 0);
  CHECK(refusal(folder.file("file")) ==
        "is read-only; name another file, or allow writing: chmod u+w");
  CHECK(content_of(folder.file("file")) == "kept");
  const int server = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  folder.file("socket").copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(bind(server, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  CHECK(refusal(folder.file("socket")) == "is a socket; name a file");
  CHECK(S_ISSOCK(mode_of(folder.file("socket"))));
  close(server);
  CHECK(refusal(folder.file(std::string(300, 'x'))) == "cannot be written: File name too long");
}
