cdef extern from "Python.h":
    int PyGC_Disable()
    int PyGC_Enable()
