// Saves a run's state while it trains on. save() copies this rank's part between two steps; a
// thread writes the copy. When every rank has written its shard, rank 0 completes the checkpoint.
// Nothing else is shared with the thread: the snapshot and the pieces are not touched while it
// works, and what it found out is handed over when it ends.
//
// A save that fails (a full disk, a folder that is gone) is said aloud and the run goes on; the
// older checkpoints stay as they are.
#pragma once

#include <functional>
#include <future>
#include <string>
#include <vector>

#include "exec/checkpoint/folder.h"
#include "exec/checkpoint/pieces.h"

namespace meshwright {

class Saver {
 public:
  // `say`: how a rank says that a save failed. The references outlive this.
  using Say = std::function<void(const std::string& line)>;
  Saver(std::string folder, int keep, Runtime& runtime, Communicator& all, Say say);
  ~Saver();
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  // Every rank calls each of these, at the same place between two steps.
  void save(const Manifest& about);  // waits for the save before; fills in the rest
  void poll();                       // goes on with what is under way, without waiting
  bool finish();                     // waits for it; whether the last save is complete

  // Of the last complete save, -1: none.
  std::int64_t saved_step() const { return saved_step_; }

 private:
  // What the thread hands over; `error` is empty when it is done, `not_removed` when older
  // checkpoints are gone as they should.
  struct Outcome {
    WrittenShard shard;
    std::string error, not_removed;
  };
  struct Report {  // of a rank to all
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
  Outcome outcome_;  // of the task that has ended
  bool last_good_ = true;
  std::int64_t saved_step_ = -1;
};

}  // namespace meshwright
