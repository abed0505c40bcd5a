#include "tests/tools/served.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>

#include "tests/catch.h"

namespace {

std::string words_of_file(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

int connected(int port) {
  const int connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(static_cast<std::uint16_t>(port));
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(connect(connection, reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
  return connection;
}

void send_all(int connection, const std::string& request) {
  for (std::size_t sent = 0; sent < request.size();) {
    const ssize_t n = send(connection, request.data() + sent, request.size() - sent, MSG_NOSIGNAL);
    if (n <= 0) break;  // the answer says why
    sent += static_cast<std::size_t>(n);
  }
}

std::string raw_answer(int port, const std::string& request) {
  const int connection = connected(port);
  send_all(connection, request);
  std::string answer;
  char some[4096];
  for (ssize_t n; (n = recv(connection, some, sizeof some, 0)) > 0;)
    answer.append(some, static_cast<std::size_t>(n));
  close(connection);
  return answer;
}

int status_of(const std::string& raw) {
  return raw.starts_with("HTTP/1.1 ") ? std::stoi(raw.substr(9, 3)) : 0;
}

Served::Served(const std::string& options) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const std::string line =
      "exec '" MESHWRIGHT_PROGRAM "' serve " +
      std::string(options.find("--port") == std::string::npos ? "--port 0 " : "") + options;
  process_ = fork();
  if (process_ == 0) {
    dup2(ends[1], 1);
    close(ends[0]);
    close(ends[1]);
    execl("/bin/sh", "sh", "-c", line.c_str(), nullptr);
    _exit(127);
  }
  close(ends[1]);
  std::string said;
  for (char c = 0; read(ends[0], &c, 1) == 1 && c != '\n';) said += c;
  close(ends[0]);
  std::smatch found;
  CAPTURE(line, said);
  REQUIRE(
      std::regex_search(said, found, std::regex("^meshwright listens at http://[^ ]*:([0-9]+)/")));
  port_ = std::stoi(found[1]);
}

Served::~Served() {
  if (process_ >= 0) CHECK(end() == 0);
}

int Served::end() {
  kill(process_, SIGTERM);
  int status = 0;
  waitpid(process_, &status, 0);
  process_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int Served::searches() const {
  int count = 0;
  const std::string tasks = "/proc/" + std::to_string(process_) + "/task";
  for (const auto& thread : std::filesystem::directory_iterator(tasks)) {
    std::istringstream children(words_of_file(thread.path() / "children"));
    for (int child; children >> child;) ++count;
  }
  return count;
}

double Served::resident_mib() const {
  std::istringstream pages(words_of_file("/proc/" + std::to_string(process_) + "/statm"));
  double whole = 0, resident = 0;
  pages >> whole >> resident;
  return resident * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}
