// Calls that run beside each other: each a process of its own, in a thread that waits for it.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>

#include "tools/serve/answer.h"
#include "tools/serve/places.h"

namespace meshwright::mcp {

class Calls {
 public:
  // `send` gets whole lines, from any thread.
  Calls(int at_once, int waiting, std::function<void(const std::string& line)> send)
      : places_(at_once, waiting), send_(std::move(send)) {}
  ~Calls();  // ends those that run, without answers
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  // Answers request `id`; what the command says meanwhile goes out as progress where there is a
  // token for it.
  void start(const nlohmann::json& id, Question question, const nlohmann::json& progress_token);
  bool runs(const nlohmann::json& id);
  void cancel(const nlohmann::json& id);  // it gets no answer

 private:
  struct Call;

  void run(Call& call) const;
  void forget_finished();

  Places places_;
  const std::function<void(const std::string&)> send_;
  std::mutex mutex_;
  std::list<std::unique_ptr<Call>> calls_;
};

}  // namespace meshwright::mcp
