/* Frame hooks in C and C++: see each Python call before it runs; let it run, run other code, or give its result.

   Compile with the folder that `python -c "import evalframe; print(evalframe.get_include())"` prints; nothing is linked.

       static evalframe_decision on_frame(void* data, evalframe_frame* frame, PyObject** value) {
         ++*(long*)data;
         return EVALFRAME_RUN;
       }
       ...
       const evalframe_hook_api* api = evalframe_import_hook_api();
       if (!api) return NULL;
       uint64_t hook = api->install(on_frame, &count, NULL, 0);
       if (!hook) return NULL;
       ...
       api->remove(hook);

   All functions want the GIL. Where a callback breaks its contract (EVALFRAME_RESULT without a value, EVALFRAME_RAISED without
   an exception, a code object whose frame the call's doesn't fit) the call raises SystemError or ValueError and doesn't run. */
#ifndef EVALFRAME_HOOK_H
#define EVALFRAME_HOOK_H

#include <Python.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EVALFRAME_HOOK_API_VERSION 1
#define EVALFRAME_HOOK_API_NAME "evalframe._core._hook_api"

/* A call that is about to run; valid until the callback returns. */
typedef struct evalframe_frame evalframe_frame;

typedef enum evalframe_decision {
  EVALFRAME_RUN = 0,      /* the hook installed before this one decides; after the last one the call runs */
  EVALFRAME_RUN_CODE = 1, /* *value is a new reference to a code object to run instead */
  EVALFRAME_RESULT = 2,   /* *value is a new reference to the call's result */
  EVALFRAME_RAISED = 3    /* an exception is set */
} evalframe_decision;

/* `data` is what was given to install; `value` points to NULL. Python code that runs in here is seen by no hook. */
typedef evalframe_decision (*evalframe_callback)(void* data, evalframe_frame* frame, PyObject** value);

typedef struct evalframe_hook_api {
  uint32_t version; /* of this table: EVALFRAME_HOOK_API_VERSION or higher; later versions only add fields */

  /* Installs for this thread, or for all. `drop` (may be NULL) is called with `data` when the hook is gone. Returns its
     id, or 0 with an exception. */
  uint64_t (*install)(evalframe_callback callback, void* data, void (*drop)(void* data), int all_threads);
  /* Removes the hook, from whichever thread; 0 if it was not installed any more. */
  int (*remove)(uint64_t hook);

  /* Borrowed references, never NULL: the code object that is about to run, its function, and the dicts of its globals and
     builtins. */
  PyObject* (*code)(evalframe_frame* frame);
  PyObject* (*function)(evalframe_frame* frame);
  PyObject* (*globals)(evalframe_frame* frame);
  PyObject* (*builtins)(evalframe_frame* frame);
  /* The arguments as the caller bound them, by index in co_varnames; *args and **kwargs count one each. Borrowed;
     NULL without an exception for an index that is none. */
  int (*argument_count)(evalframe_frame* frame);
  PyObject* (*argument)(evalframe_frame* frame, int index);
  /* A new reference to a dict of the arguments by name; of a module or class body its namespace. NULL with an exception. */
  PyObject* (*locals)(evalframe_frame* frame);
} evalframe_hook_api;

/* The table, or NULL with an exception. Imports evalframe. */
static inline const evalframe_hook_api* evalframe_import_hook_api(void) {
  PyObject* module = PyImport_ImportModule("evalframe._core");
  if (!module) return NULL;
  Py_DECREF(module);
  return (const evalframe_hook_api*)PyCapsule_Import(EVALFRAME_HOOK_API_NAME, 0);
}

#ifdef __cplusplus
}
#endif

#endif
