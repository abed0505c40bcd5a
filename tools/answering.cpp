#include "tools/answering.h"

#include <cstdio>
#include <iostream>
#include <iterator>
#include <new>
#include <string>

#include "exec/launch/exit_codes.h"
#include "models/core/error.h"
#include "models/core/json.h"
#include "tools/command_line.h"
#include "tools/print.h"
#include "tools/report/search_watch.h"
#include "tools/session/choose.h"

namespace meshwright::tools {

namespace {

void say(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

void say(const char* key, const std::string& text) {
  const json line = {{key, printable(text)}};
  say(line.dump(-1, ' ', true, json::error_handler_t::replace));
}

int failed(int code, const std::string& message) {
  say("error", message);
  return code;
}

}  // namespace

int run_answering() try {
  const Call call =
      read_call({std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()});
  Watch watch;
  watch.warn = [](const std::string& text) { say("warning", text); };
  watch.search = watch_in_lines([](const std::string& line) { say(line); });
  print_text(answer_of(call, watch));
  return done;
} catch (const InputError& error) {
  return failed(bad_input, error.what());
} catch (const NoPlanFits& error) {
  print_text(error.answer());
  return failed(no_plan_fits, error.what());
} catch (const std::bad_alloc&) {
  say(R"({"error": "the system has no more memory", "out_of_memory": true})");
  return run_failed;
} catch (const std::exception& error) {
  return failed(our_fault, error.what());
}

}  // namespace meshwright::tools
