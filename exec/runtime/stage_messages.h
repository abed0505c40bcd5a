// The messages of a step between this rank and those of neighbouring stages. Sends and receives do
// not block. Whoever waits for a message completes it first, and meanwhile posts the receives that
// can begin, because another rank may wait until what it sent is received.
#pragma once

#include <array>
#include <iterator>
#include <vector>

#include "exec/runtime/events.h"
#include "exec/runtime/fifo.h"
#include "exec/runtime/rank_context.h"
#include "exec/runtime/trace_times.h"

namespace meshwright::exec {

class StageMessages {
 public:
  // Reserves lists for all messages of a step, because the number in flight at once depends on
  // which rank is faster. The arguments must outlive it.
  StageMessages(const RankContext& rank, const WaitResolver& resolve, Events& events,
                TraceTimes& times);

  void begin_step();
  // Says which instruction the list has come to. All before it were issued.
  void come_to(const RunId& run) { now_ = run; }
  // Posts the message that the list has come to, unless receive_ahead() already did.
  void post(const Instruction& instruction, const RunId& run);
  // Posts receives before the list of instructions comes to them. On each stream it posts them in
  // order, up to the first one that waits for an instruction which is not complete. Does nothing if
  // calls only issue to a device's streams, because such calls return before other ranks have come.
  void receive_ahead();
  // Completes the messages that the instruction of the task waits for. Throws RunError.
  void wait_for(int task, const Instruction& instruction);
  void complete_all();
  // Notices which messages are complete, without waiting.
  void make_progress();

 private:
  struct Pending {  // a send or receive in flight
    RunId run;
    Request request;
    std::size_t entry;  // index in the timeline
  };
  // The messages of a pair of streams. A communicator of its own keeps their order.
  struct Messages {
    Communicator* stages = nullptr;  // null: there are none
    Fifo<Pending> sends, receives;   // in flight, each in the order of its stream
    std::vector<RunId> to_receive;   // in a step, in list order
    std::size_t posted = 0;          // how many of them are posted
  };

  void receive_ahead(Messages& messages);
  bool is_over(const RunId& run);
  void complete_until(Stream stream, const RunId& run);
  void complete(Communicator& stages, const Pending& pending);
  void finish(const Pending& pending);
  int tag_of(const Instruction& instruction, const Task& task) const;
  Messages& messages(Stream stream) { return messages_[is_back(stream) ? 1 : 0]; }
  Fifo<Pending>& pending(Stream stream) {
    Messages& own = messages(stream);
    return stream == Stream::pipe_send || stream == Stream::pipe_send_back ? own.sends
                                                                           : own.receives;
  }

  const RankContext& rank_;
  const WaitResolver& resolve_;
  Events& events_;
  TraceTimes& times_;
  int channels_ = 1;
  RunId now_{0, 0};
  std::array<Messages, std::size(message_streams)> messages_;
};

}  // namespace meshwright::exec
