// Optional parts of a device: streams that run concurrently, and captured steps that are replayed
// as a whole.
#pragma once

namespace meshwright {

// Work is issued to the stream in use (0 at first), which does it in order. Calls return before the
// work is done.
class Streams {
 public:
  virtual ~Streams() = default;

  virtual void use(int stream) = 0;
  virtual void record(int event) = 0;  // on the stream in use; replaces what it stood for before
  // The stream in use continues only when the work that the event marks is complete.
  virtual void await(int event) = 0;
  // Returns when everything issued to the stream in use is complete. A message may only end when
  // this host has gone on.
  virtual void wait_for_stream() = 0;

  // For traces: stamp() marks the moment at which the stream in use reaches this point. Once that
  // is complete, stamped() returns the moment in seconds since the latest begin_stamps().
  virtual void begin_stamps() = 0;
  virtual int stamp() = 0;
  virtual double stamped(int stamp) = 0;
};

// Captures a step's work as a whole. What is issued from begin to end is not done then, but by each
// replay. A replay reads the host memory that it copies from anew. Its step_position is that of the
// latest Backend::begin_step.
class StepCapture {
 public:
  virtual ~StepCapture() = default;

  virtual void begin() = 0;
  virtual void end() = 0;
  virtual void replay() = 0;
  virtual void drop() = 0;  // before the communicators that it uses end
};

}  // namespace meshwright
