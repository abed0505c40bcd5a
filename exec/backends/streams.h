// What a device has beside memory and operations: streams that run beside each other, and steps
// that it keeps as a whole.
#pragma once

namespace meshwright {

// What is issued goes to the stream in use (0 at first) and is done there in order; calls return
// before the work is done.
class Streams {
 public:
  virtual ~Streams() = default;

  virtual void use(int stream) = 0;
  virtual void record(int event) = 0;  // on the stream in use; replaces what it stood for before
  // The stream in use goes on when what the event stands for has happened.
  virtual void await(int event) = 0;
  // Returns when what was issued to the stream in use is complete. A message may only end when this
  // host has gone on.
  virtual void wait_for_stream() = 0;

  // For traces: marks the moment at which the stream in use comes here. Once that is complete: the
  // moment, in seconds since the latest begin_stamps.
  virtual void begin_stamps() = 0;
  virtual int stamp() = 0;
  virtual double stamped(int stamp) = 0;
};

// A step's work as a whole: what is issued from begin to end is not done, and each replay does it
// then. Host memory that it copies from is read anew; step_position is that of the latest
// Backend::begin_step.
class StepCapture {
 public:
  virtual ~StepCapture() = default;

  virtual void begin() = 0;
  virtual void end() = 0;
  virtual void replay() = 0;
  virtual void drop() = 0;  // before the communicators that it uses end
};

}  // namespace meshwright
