// driver_call.hpp: what drivers leak is theirs. They are unloaded before the leak check of a sanitizer could name them, so
// allocations during the calls that open them are left out of it. Nothing in other builds.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define CORTIQ_LEAK_CHECK 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define CORTIQ_LEAK_CHECK 1
#endif
#endif

#ifdef CORTIQ_LEAK_CHECK
#include <sanitizer/lsan_interface.h>
#endif

namespace cortiq::vulkan {

/// For the length of a scope, on this thread.
class DriverCall {
 public:
#ifdef CORTIQ_LEAK_CHECK
  DriverCall() { __lsan_disable(); }
  ~DriverCall() { __lsan_enable(); }
#else
  DriverCall() {}
  ~DriverCall() {}
#endif
  DriverCall(const DriverCall&) = delete;
  DriverCall& operator=(const DriverCall&) = delete;
};

}  // namespace cortiq::vulkan
