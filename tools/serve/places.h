// Who may search: so many at once, in the order in which they came; a few more wait, others are
// turned away.
#pragma once

#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>

namespace meshwright {

class Places {
 public:
  Places(int running, int waiting) : running_(running), most_(running + waiting) {}

  class Place {
   public:
    explicit Place(Places& all) : all_(all) {}
    ~Place();
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    // Until it is this one's turn; false when `gives_up`, which is asked ten times a second, says
    // so first.
    bool wait(const std::function<bool()>& gives_up) const;

   private:
    Places& all_;
  };

  std::unique_ptr<Place> take();  // none is left: nothing

 private:
  bool is_turn_of(const Place* place) const;

  const int running_, most_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<const Place*> taken_;  // in the order of their coming
};

}  // namespace meshwright
