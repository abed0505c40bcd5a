// Runs several calls at the same time. Each is a process of its own, and a thread waits for it.
#pragma once

#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>

#include "models/core/json.h"
#include "tools/serve/answer.h"
#include "tools/serve/places.h"

namespace meshwright::tools::mcp {

class Calls {
 public:
  // `program` is the path of this program. `at_once` calls run at the same time, and `waiting` more
  // wait for their turn. `send` gets whole lines, without their ends, from any thread.
  Calls(std::string program, int at_once, int waiting,
        std::function<void(const std::string& line)> send)
      : program_(std::move(program)), places_(at_once, waiting), send_(std::move(send)) {}
  ~Calls();  // ends running calls, without results
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  // Starts the call of request `id`, and later sends its result. If there is a progress token, the
  // command's progress and warnings are sent as notifications. If too many calls wait already, an
  // error is sent at once as the result.
  void start(const json& id, Question question, const json& progress_token);
  bool runs(const json& id);
  void cancel(const json& id);  // no result is sent

 private:
  struct Call;

  void run(Call& call) const;
  void forget_finished();

  const std::string program_;
  Places places_;
  const std::function<void(const std::string&)> send_;
  std::mutex mutex_;
  std::list<std::unique_ptr<Call>> calls_;
};

}  // namespace meshwright::tools::mcp
