// Optional parts of a device: streams that run concurrently, and captured steps that are replayed
// as a whole.
#pragma once

namespace meshwright::exec {

// Streams of a device, by number. Work is issued to the stream in use (0 at first), which does it
// in order. Calls return before the work is done.
class Streams {
 public:
  virtual ~Streams() = default;

  virtual void use(int stream) = 0;
  // Marks this point of the stream in use by the event. Replaces the event's earlier mark.
  virtual void record(int event) = 0;
  // Makes the stream in use wait until the work before the event's mark is complete. The host goes
  // on.
  virtual void await(int event) = 0;
  // Blocks the host until everything issued to the stream in use is complete. Messages that need
  // further calls of this host do not complete meanwhile.
  virtual void wait_for_stream() = 0;

  // For traces: begin_stamps() starts a new list of stamps, and stamp() marks the moment at which
  // the stream in use reaches this point. Once the marked work is complete, stamped() returns the
  // moment in seconds since the latest begin_stamps().
  virtual void begin_stamps() = 0;
  virtual int stamp() = 0;
  virtual double stamped(int stamp) = 0;
};

// Captures a step's work as a whole. Work that is issued from begin() to end() is not done then,
// but by each replay(). A replay reads anew the host memory that it copies from. Its step_position
// is that of the latest Backend::begin_step().
class StepCapture {
 public:
  virtual ~StepCapture() = default;

  virtual void begin() = 0;
  virtual void end() = 0;
  virtual void replay() = 0;
  // Discards the capture. Must be called before the communicators that it uses are destroyed.
  virtual void drop() = 0;
};

}  // namespace meshwright::exec
