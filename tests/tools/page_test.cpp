// Tests the page of `serve` in a browser: a user makes choices, plans, cancels, exports, and
// returns by the link.
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/catch.h"
#include "tests/test_folder.h"
#include "tests/tools/browser.h"
#include "tests/tools/program.h"
#include "tests/tools/served.h"

using nlohmann::json;

namespace {

// Returns whether there is a browser. In CI nobody would notice a skipped test, so there a missing
// browser is a failure.
bool can_browse() {
  if (Browser::is_here()) return true;
  const char* ci = std::getenv("CI");
  if (ci != nullptr && std::string(ci) == "true")
    FAIL("no browser; tools/setup --test installs it");
  std::cout << "skipped: no browser (tools/setup --test)\n";
  return false;
}

void check_stays_here(Browser& browser, const Served& served) {
  for (const std::string& address : browser.addresses()) {
    CAPTURE(address);
    CHECK((address.starts_with("http://" + served.host() + "/") || address.starts_with("data:") ||
           address.starts_with("blob:http://" + served.host() + "/")));
  }
  for (const std::string& error : browser.errors()) FAIL_CHECK(error);
}

std::string text_of(const std::string& selector) {
  return "document.querySelector('" + selector + "').innerText";
}

const std::string searched = "document.body.dataset.state === 'done'";
const std::string ready = "document.body.dataset.state === 'ready'";

std::string link_of(const Served& served, const json& job) {
  return "http://" + served.host() + "/#job=" + [](const std::string& text) {
    constexpr const char* digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    std::string coded;
    int held = 0, bits = 0;
    for (const unsigned char byte : text) {
      held = (held << 8 | byte) & 0xffff;
      for (bits += 8; bits >= 6; bits -= 6) coded += digits[held >> (bits - 6) & 63];
    }
    if (bits > 0) coded += digits[held << (6 - bits) & 63];
    return coded;
  }(job.dump());
}

std::string wait_for_file(const TestFolder& folder, const std::string& name) {
  for (int i = 0; i < 200 && !std::filesystem::exists(folder.file(name)); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return content_of(folder.file(name));
}

}  // namespace

TEST_CASE("the page: choose, plan, export, come back by the link", "[page]") {
  if (!can_browse()) return;
  const Served served;
  const TestFolder folder;
  Browser browser(folder.path());
  browser.open("http://" + served.host() + "/");
  browser.wait_for(ready);

  // The test uses the page's own controls by the keyboard: a list, a number, and the enter key.
  browser.type("#model", "distilgpt2");
  browser.type("#filter", "p3.8");
  browser.value_of(
      "document.querySelectorAll('#machines input:checked').forEach(box => box.click())");
  browser.click("#machines input[value=\"p3.8xlarge\"]");
  browser.value_of(
      "['#batch', '#length', '#most', '#tokens'].forEach(id => document.querySelector(id).value = "
      "'')");
  browser.type("#batch", "16\t");
  browser.type("#length", "128\t");
  browser.type("#most", "2\t");
  browser.click("#failures");
  browser.type("#tokens", "1B\n");  // submits
  browser.wait_for(searched, 120);

  // The page must show what the command prints for the same job.
  const json job =
      json::parse(browser.value_of("document.querySelector('#json').value").get<std::string>());
  CHECK(job["model"] == "distilgpt2");
  CHECK(job["cluster"]["machine"] == json::array({"p3.8xlarge"}));
  CHECK(job["cluster"]["count"] == json::array({1, 2}));
  CHECK(job["training"]["global_batch"] == 16);
  CHECK(job["objective"]["tokens"] == "1B");
  CHECK(job["failures"].is_object());
  const json answer = answer_of("plan " + folder.file("asked.json", job.dump()) + " --top 20");
  const std::string shown = browser.value_of(text_of("#plans"));
  CHECK(shown.find(answer["plans"][0]["plan"].get<std::string>()) != std::string::npos);
  CHECK(browser.value_of(
            "document.querySelectorAll('#plans .wide')[0].querySelectorAll('tbody tr').length") ==
        answer["plans"].size());
  for (const std::string section : {"plans", "chosen-plan", "memory", "time", "risk", "exports"}) {
    CAPTURE(section);
    CHECK(browser.value_of("document.querySelector('#" + section + "').hidden") == false);
  }
  CHECK(browser.value_of("document.querySelectorAll('.chart canvas').length") >= 4);
  CHECK(std::stoi(browser.value_of("document.querySelector('.timeline canvas').dataset.drawn")
                      .get<std::string>()) > 0);
  // The timeline can be zoomed by the keyboard.
  browser.type(".timeline canvas", "+");
  CHECK(browser.value_of("Number(document.querySelector('.timeline canvas').dataset.from) > 0") ==
        true);

  // The exported job must give the prediction that the page shows.
  browser.value_of(
      "[...document.querySelectorAll('#exports button')].forEach("
      "each => each.textContent.includes('with this plan') && each.click())");
  const std::string planned = wait_for_file(folder, "my-job-planned.json");
  const json step = answer_of("simulate " + folder.file("planned.json", planned));
  CHECK(step["step_time_s"].get<double>() ==
        Approx(answer["plans"][0]["step_time_s"].get<double>()).epsilon(1e-9));
  browser.value_of(
      "[...document.querySelectorAll('#exports button')].forEach("
      "each => each.textContent.includes('Report') && each.click())");
  CHECK(wait_for_file(folder, "my-job.html").find("</html>") != std::string::npos);

  for (const std::string section : {"ladder", "moves"}) {
    browser.click(section == "ladder" ? "#advise" : "#sensitivity");
    browser.wait_for(searched + " && !document.querySelector('#" + section + "').hidden");
  }
  CHECK(browser.value_of(text_of("#ladder")).get<std::string>().find("Rent ") != std::string::npos);

  // The link must lead to the same job.
  browser.reload();
  browser.wait_for(ready);
  CHECK(json::parse(browser.value_of("document.querySelector('#json').value").get<std::string>()) ==
        job);
  CHECK(browser.value_of("document.querySelector('#model').value") == "distilgpt2");
  CHECK(browser.value_of("document.querySelector('#failures').checked") == true);
  check_stays_here(browser, served);
}

TEST_CASE("the page: settings of a framework that can run the plan", "[page]") {
  if (!can_browse()) return;
  const Served served;
  const TestFolder folder;
  Browser browser(folder.path());
  const json job = {{"name", "for others"},
                    {"model", "gpt2"},
                    {"training",
                     {{"framework", "megatron-lm"},
                      {"global_batch", 16},
                      {"sequence_length", 128},
                      {"micro_batch", 4},
                      {"recompute", "none"}}},
                    {"cluster", {{"machine", "g5.12xlarge"}, {"count", 1}}},
                    {"parallelism",
                     {{"tensor", 2},
                      {"data", 2},
                      {"pipeline", 1},
                      {"context", 1},
                      {"schedule", "1f1b"},
                      {"zero_stage", 0},
                      {"sequence_parallel", false}}}};  // a search opens what is left out
  browser.open(link_of(served, job));
  browser.wait_for(ready);
  browser.click("#plan");
  browser.wait_for(searched, 120);
  browser.value_of(
      "[...document.querySelectorAll('#exports button')].find("
      "each => each.textContent === 'Settings of megatron-lm').click()");
  browser.wait_for(searched + " && document.querySelectorAll('#settings details').length > 0");
  const json exported =
      answer_of("export " + folder.file("job.json", job.dump()) + " --for megatron-lm");
  CHECK(browser.value_of("document.querySelectorAll('#settings details').length") ==
        exported["contents"].size());
  browser.value_of(
      "document.querySelectorAll('#settings details').forEach(each => { each.open = true; })");
  const std::string shown = browser.value_of(text_of("#settings"));
  CHECK(shown.find("--tensor-model-parallel-size 2") != std::string::npos);
  browser.value_of(
      "[...document.querySelectorAll('#settings button')].find("
      "each => each.textContent === 'Save arguments.txt').click()");
  CHECK(wait_for_file(folder, "arguments.txt") ==
        exported["contents"]["arguments.txt"].get<std::string>());
  check_stays_here(browser, served);
}

TEST_CASE("the page: a search can be cancelled, and what is wrong is said", "[page]") {
  if (!can_browse()) return;
  const Served served;
  const TestFolder folder;
  Browser browser(folder.path(), 500);
  const std::string name = "<script>document.title = 'hurt'</script><img src=x onerror=alert(1)>";
  json job = {
      {"name", name},
      {"model", "gpt3-175b"},
      {"training", {{"global_batch", 1536}, {"sequence_length", 2048}, {"micro_batch", "auto"}}},
      {"cluster", {{"machine", {"p4d.24xlarge", "p5.48xlarge"}}, {"count", {64, 128, 256, 512}}}},
      {"parallelism", "auto"}};
  browser.open(link_of(served, job));
  browser.wait_for(ready);
  browser.click("#plan");
  browser.wait_for(text_of("#doing") + ".includes('plans,')");
  CHECK(served.searches() == 1);
  browser.click("#cancel");
  browser.wait_for("document.body.dataset.state === 'cancelled'", 5);
  CHECK(browser.value_of(text_of("#doing")) == "Cancelled.");
  for (int i = 0; i < 200 && served.searches() > 0; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(served.searches() == 0);
  check_stays_here(browser, served);

  // The texts of a job are shown as text, in the answer and in errors. The page fits a narrow
  // window.
  job["model"] = "gpt2";
  job["training"] = {{"global_batch", 8}, {"sequence_length", 128}};
  job["cluster"] = {{"machine", "g5.xlarge"}, {"count", 1}};
  job.erase("parallelism");
  browser.open(link_of(served, job));
  browser.wait_for("JSON.parse(document.querySelector('#json').value).model === 'gpt2'");
  browser.click("#plan");
  browser.wait_for(searched);
  CHECK(browser.value_of(text_of("#plans")).get<std::string>().find(name) != std::string::npos);
  CHECK(browser.value_of("document.title") == "meshwright");
  CHECK(browser.value_of("document.querySelectorAll('main script, main img').length") == 0);
  CHECK(browser.value_of("document.documentElement.scrollWidth <= window.innerWidth") == true);
  check_stays_here(browser, served);

  job["model"] = "<b>gpt</b>";
  browser.open(link_of(served, job));
  browser.wait_for("JSON.parse(document.querySelector('#json').value).model === '<b>gpt</b>'");
  browser.click("#plan");
  browser.wait_for("document.body.dataset.state === 'failed'");
  CHECK(browser.value_of(text_of("#message")).get<std::string>().find("'<b>gpt</b>'") !=
        std::string::npos);
  CHECK(browser.value_of("document.querySelectorAll('#message *').length") == 0);
}

TEST_CASE("the page: numbers in people's words, and whole tables on a phone", "[page]") {
  if (!can_browse()) return;
  const Served served;
  const TestFolder folder;
  Browser browser(folder.path(), 390);
  const json job = {{"name", "small"},
                    {"model", "distilgpt2"},
                    {"training", {{"global_batch", 16}, {"sequence_length", 128}}},
                    {"cluster", {{"machine", "p3.8xlarge"}, {"count", {1, 2}}}}};
  browser.open(link_of(served, job));
  browser.wait_for(ready);
  browser.type("#tokens", "1.5 billion\t");
  browser.type("#budget", "$15k\t");
  browser.type("#days", "2 weeks\t");
  browser.value_of("document.querySelector('#length').value = ''");
  browser.type("#length", "0.5k\t");
  const json asked =
      json::parse(browser.value_of("document.querySelector('#json').value").get<std::string>());
  CHECK(asked["objective"] ==
        json{{"tokens", "1.5 billion"}, {"budget_usd", "$15k"}, {"deadline_s", "2 weeks"}});
  browser.click("#advise");
  browser.wait_for(searched + " && !document.querySelector('#ladder').hidden", 120);
  const json answer = answer_of("advise " + folder.file("asked.json", asked.dump()));
  CHECK(answer["budget_usd"] == 15000);
  CHECK(answer["deadline_s"] == 14 * 86400);
  CHECK(answer["ladders"][0]["rungs"][0]["total_tokens"].get<double>() == Approx(1.5e9));
  CHECK(browser.value_of(text_of("#ladder")).get<std::string>().find("Rent ") != std::string::npos);
  browser.click("#plan");
  browser.wait_for(searched + " && !document.querySelector('#plans').hidden", 120);
  // Every column of every table is visible without scrolling, with its title.
  CHECK(browser.value_of("document.documentElement.scrollWidth <= window.innerWidth") == true);
  CHECK(browser.value_of("document.querySelectorAll('.wide').length") >= 3);
  CHECK(browser.value_of("[...document.querySelectorAll('.wide')].filter("
                         "each => each.scrollWidth > each.clientWidth).length") == 0);
  CHECK(browser.value_of("[...document.querySelectorAll('.wide td')].filter(each => "
                         "each.textContent && each.getBoundingClientRect().right > "
                         "window.innerWidth).length") == 0);
  const std::string shown = browser.value_of(text_of("#plans"));
  for (const char* title : {"plan", "step", "memory"})
    CHECK(shown.find(title) != std::string::npos);
  // Text that is not a number gets the same message as on the command line.
  browser.value_of("document.querySelector('#tokens').value = ''");
  browser.type("#tokens", "many\t");
  browser.click("#plan");
  browser.wait_for("document.body.dataset.state === 'failed'");
  CHECK(browser.value_of(text_of("#message"))
            .get<std::string>()
            .find("expected a number such as 60e9, 60B or 20M, found 'many'") != std::string::npos);
  check_stays_here(browser, served);
}
