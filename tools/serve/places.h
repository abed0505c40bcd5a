// Limits how many commands run at once. `waiting` more wait in order of arrival, and the others are
// rejected.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

namespace meshwright::tools {

class Places {
 public:
  Places(int running, int waiting) : running_(running), most_(running + waiting) {}

  class Place {
   public:
    explicit Place(Places& all) : all_(all) {}
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    // Waits until it is this place's turn and returns true, or returns false as soon as gives_up()
    // is true. gives_up() is called about ten times a second or more often, but not if it is this
    // place's turn already.
    bool wait(const std::function<bool()>& gives_up) const;

   private:
    Places& all_;
  };

  std::unique_ptr<Place> take();  // null if none is left

 private:
  bool is_turn_of(const Place* place) const;

  const int running_, most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<const Place*> taken_;  // in order of arrival
};

}  // namespace meshwright::tools
