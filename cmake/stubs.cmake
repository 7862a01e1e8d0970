# Run at installation: writes the type stubs of evalframe._core, read from the built module, beside it.
# In: module (the built file), python, work (a scratch folder), destination.
file(REMOVE_RECURSE ${work})
file(MAKE_DIRECTORY ${work}/evalframe)
file(WRITE ${work}/evalframe/__init__.py "")
file(COPY ${module} DESTINATION ${work}/evalframe)
execute_process(
  COMMAND ${python} -m nanobind.stubgen --quiet --recursive --import ${work} --module evalframe._core --output-dir ${work}/evalframe
  RESULT_VARIABLE failed)
if(failed)
  message(WARNING "No type stubs for evalframe._core: nanobind.stubgen failed.")
else()
  file(INSTALL ${work}/evalframe/_core DESTINATION ${destination})
endif()
