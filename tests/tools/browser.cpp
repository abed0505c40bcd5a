#include "tests/tools/browser.h"

#include <httplib.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <regex>
#include <thread>

#include "tests/catch.h"

using nlohmann::json;

namespace {

constexpr const char* browser_path = "/usr/bin/chromium";
constexpr const char* driver_path = "/usr/bin/chromedriver";

bool can_run(const char* path) { return access(path, X_OK) == 0; }

}  // namespace

bool Browser::is_here() { return can_run(browser_path) && can_run(driver_path); }

Browser::Browser(const std::string& folder, int width) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  driver_ = fork();
  if (driver_ == 0) {
    setpgid(0, 0);
    dup2(ends[1], 1);
    close(ends[0]);
    close(ends[1]);
    execl(driver_path, "chromedriver", "--port=0", nullptr);
    _exit(127);
  }
  close(ends[1]);
  const std::regex ready("successfully on port ([0-9]+)");
  std::string said;
  std::smatch found;
  char some[512];
  pollfd output{ends[0], POLLIN, 0};
  while (!std::regex_search(said, found, ready) && poll(&output, 1, 30'000) > 0) {
    const ssize_t n = read(ends[0], some, sizeof some);
    if (n <= 0) break;
    said.append(some, static_cast<std::size_t>(n));
  }
  close(ends[0]);
  CAPTURE(said);
  REQUIRE(std::regex_search(said, found, ready));
  client_ = std::make_unique<httplib::Client>("127.0.0.1", std::stoi(found[1]));
  client_->set_read_timeout(60);
  const json options = {
      {"binary", browser_path},
      {"args",
       {"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--force-color-profile=srgb", "--user-data-dir=" + folder + "/profile",
        "--window-size=" + std::to_string(width) + ",1000",
        // Without these options the browser's own calls to its vendor would be among the requests.
        "--disable-background-networking", "--disable-component-update", "--no-first-run"}},
      {"prefs",
       {{"download.default_directory", folder},
        {"download.prompt_for_download", false},
        {"profile.default_content_setting_values.automatic_downloads", 1}}}};
  const json asked = {{"capabilities",
                       {{"alwaysMatch",
                         {{"browserName", "chrome"},
                          {"goog:chromeOptions", options},
                          {"goog:loggingPrefs", {{"browser", "ALL"}, {"performance", "ALL"}}}}}}}};
  session_ = "/session/" + ask("/session", asked).at("sessionId").get<std::string>();
  open("about:blank");
  addresses();  // those of the browser's own first page
}

Browser::~Browser() {
  if (!session_.empty()) client_->Delete(session_);
  kill(-driver_, SIGKILL);
  kill(driver_, SIGKILL);
  waitpid(driver_, nullptr, 0);
}

json Browser::ask(const std::string& path, const json& body) {
  const auto result = client_->Post(path, body.dump(), "application/json");
  REQUIRE(result);
  CAPTURE(path, body.dump(), result->body);
  REQUIRE(result->status == 200);
  return json::parse(result->body).at("value");
}

void Browser::open(const std::string& url) { ask(session_ + "/url", {{"url", url}}); }

void Browser::reload() { ask(session_ + "/refresh", json::object()); }

json Browser::value_of(const std::string& expression) {
  return ask(session_ + "/execute/sync",
             {{"script", "return (" + expression + ");"}, {"args", json::array()}});
}

void Browser::wait_for(const std::string& expression, double seconds) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  bool is_so = false;
  while (!(is_so = value_of("!!(" + expression + ")").get<bool>()) &&
         std::chrono::steady_clock::now() < until)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CAPTURE(expression, value_of("document.querySelector('main').innerText").get<std::string>());
  REQUIRE(is_so);
}

std::string Browser::element(const std::string& selector) {
  const json found = ask(session_ + "/element", {{"using", "css selector"}, {"value", selector}});
  return session_ + "/element/" + found.begin()->get<std::string>();
}

void Browser::click(const std::string& selector) {
  ask(element(selector) + "/click", json::object());
}

void Browser::type(const std::string& selector, const std::string& text) {
  ask(element(selector) + "/value", {{"text", text}});
}

void Browser::screenshot(const std::string& path) {
  const auto result = client_->Get(session_ + "/screenshot");
  std::ofstream(path) << json::parse(result->body).at("value").get<std::string>();
}

std::vector<std::string> Browser::errors() {
  std::vector<std::string> lines;
  for (const json& entry : ask(session_ + "/se/log", {{"type", "browser"}}))
    lines.push_back(entry.at("message"));
  return lines;
}

std::vector<std::string> Browser::addresses() {
  std::vector<std::string> all;
  for (const json& entry : ask(session_ + "/se/log", {{"type", "performance"}})) {
    const json message = json::parse(entry.at("message").get<std::string>()).at("message");
    if (message.at("method") != "Network.requestWillBeSent") continue;
    const std::string url = message.at("params").at("request").at("url");
    if (!url.starts_with("chrome")) all.push_back(url);  // the browser's own pages
  }
  return all;
}
