"""The target opencl: OpenCL C for one device, through PyOpenCL."""
