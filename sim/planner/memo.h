// Caches values that are slow to find. Each is found once, by the thread that asks first for it,
// while other threads that ask for it wait. If finding a value throws, everyone who asks for it
// gets the exception, then and later.
#pragma once

#include <exception>
#include <map>
#include <mutex>

namespace meshwright::sim {

template <class Key, class Value>
class Memo {
 public:
  // Returns the value of `key`. If it is not known, `make` finds it. The reference stays valid as
  // long as this object.
  template <class Make>
  const Value& get(const Key& key, const Make& make) {
    Slot* slot = nullptr;
    {
      const std::lock_guard lock(mutex_);
      slot = &slots_[key];
    }
    std::call_once(slot->found, [&] {
      try {
        slot->value = make();
      } catch (...) {
        slot->failure = std::current_exception();
      }
    });
    if (slot->failure) std::rethrow_exception(slot->failure);
    return slot->value;
  }
  std::size_t size() const {
    const std::lock_guard lock(mutex_);
    return slots_.size();
  }

 private:
  struct Slot {
    std::once_flag found;
    Value value;
    std::exception_ptr failure;
  };
  mutable std::mutex mutex_;
  std::map<Key, Slot> slots_;
};

}  // namespace meshwright::sim
