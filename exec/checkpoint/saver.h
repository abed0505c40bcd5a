// Saves a run's state while training continues. save() copies this rank's part between two steps,
// and a thread writes the copy. When every rank has written its shard, a thread of rank 0 completes
// the checkpoint. A thread shares nothing else with the run: the snapshot, the pieces and the
// manifest are not touched while it works, and its outcome is handed over when it ends.
//
// If a save fails (a full disk, a missing folder), a warning is printed and the run goes on. The
// older checkpoints stay as they are.
#pragma once

#include <functional>
#include <future>
#include <string>
#include <vector>

#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/pieces.h"

namespace meshwright::exec {

class Saver {
 public:
  // `say` prints a line on this rank, if a save has failed or if older checkpoints could not be
  // removed. The references must outlive this object.
  using Say = std::function<void(const std::string& line)>;
  Saver(std::string folder, int keep, Runtime& runtime, Communicator& all, Say say);
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Every rank calls each of these functions at the same point between two steps.
  void save(const Manifest& about);  // waits for the previous save
  void poll();                       // advances a save in flight without waiting
  bool finish();  // waits for a save in flight; returns whether the last one, if any, is good

  // Returns the step of the last complete save, or -1 if there is none.
  std::int64_t saved_step() const { return saved_step_; }

 private:
  // The result that the thread hands over. An empty `error` means that it succeeded, an empty
  // `not_removed` that older checkpoints were removed as intended.
  struct Outcome {
    WrittenShard shard;
    std::string error, not_removed;
  };
  struct Report {  // a rank's message to all others
    enum Status : std::int64_t { busy, good, failed };
    std::int64_t status = good, bytes = 0, checksum = 0;
  };
  enum class Stage { idle, writing, completing };

  static std::future<Outcome> in_background(std::function<Outcome()> work);
  void advance(bool wait);
  void complete(const std::vector<Report>& reports);
  void end(const std::vector<Report>& reports);

  std::string folder_;
  int keep_;
  Runtime& runtime_;
  Communicator& all_;
  Say say_;
  std::vector<PieceSource> pieces_;
  Manifest manifest_;
  Stage stage_ = Stage::idle;
  std::future<Outcome> task_;
  Outcome outcome_;  // returned by the latest task that ended
  bool last_good_ = true;
  std::int64_t saved_step_ = -1;
};

}  // namespace meshwright::exec
