// Declares a headless Chromium that tests drive by chromedriver over WebDriver
// (https://www.w3.org/TR/webdriver2).
#pragma once

#include <sys/types.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace httplib {
class Client;
}

class Browser {
 public:
  static bool is_here();  // chromium and chromedriver

  // Downloads go to `folder`. `width` is that of the window in pixels.
  explicit Browser(const std::string& folder, int width = 1200);
  ~Browser();
  Browser(const Browser&) = delete;
  Browser& operator=(const Browser&) = delete;

  void open(const std::string& url);
  void reload();
  // Returns the value of a JavaScript expression in the page.
  nlohmann::json value_of(const std::string& expression);
  // Waits until the expression is true. The test fails if that takes longer than `seconds`.
  void wait_for(const std::string& expression, double seconds = 60);
  void click(const std::string& selector);
  void type(const std::string& selector, const std::string& text);  // keys, after what is there
  void screenshot(const std::string& path);

  std::vector<std::string> errors();     // of the console, since the last call
  std::vector<std::string> addresses();  // that requests of pages went to, since the last call

 private:
  nlohmann::json ask(const std::string& path, const nlohmann::json& body);
  std::string element(const std::string& selector);

  pid_t driver_ = -1;
  std::unique_ptr<httplib::Client> client_;
  std::string session_;
};
